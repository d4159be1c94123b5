"""How the files of the report are written, and what the page and the JSON show of the texts."""

import json

import pytest

from bert_fused_plugin.commands import compare
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports import page
from bert_fused_plugin.reports.page import to_json


def test_files_are_written_together_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "compare", lambda _: {"verdicts": [], "bert_tests": []})
    monkeypatch.setattr(compare, "render", lambda _: "new")
    monkeypatch.setattr(compare, "to_json", lambda _: "{}")
    first, second = tmp_path / "a.html", tmp_path / "a.json"
    first.write_text("old", encoding="utf-8")
    command = ["data", "--baseline", "a=b", "--output", str(first), "--json", str(second)]
    compare.main(command)
    assert (first.read_text(), second.read_text()) == ("new", "{}")

    def full(_):
        raise OSError("disk full")

    monkeypatch.setattr(compare, "render", lambda _: "newer")
    monkeypatch.setattr("bert_fused_plugin.files.os.fsync", full)
    with pytest.raises(BertFusedError, match=r"a\.html cannot be written, and nothing was changed \(disk full\)"):
        compare.main(command)
    assert (first.read_text(), second.read_text()) == ("new", "{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.json"]


@pytest.fixture
def report():
    """The texts of a report on data that Moses has tokenised."""
    maps = [{"run": "a", "kind": "source", "rows": ["l&apos;", "an"], "columns": ["&#91;", "x"], "percent": [[1]]}]
    sentence = {"source": "&#91; x", "reference": "l&apos; an", "translations": {"a": {"text": "&quot; an", "BLEU": 1}}}
    return {
        "moses_escapes": True,
        "runs": [],
        "curves": {"points": {}, "charts": []},
        "sentence_texts": {0: sentence},
        "attention": {0: maps},
    }


def test_the_page_shows_the_characters_that_moses_escaped(report, monkeypatch):
    shown = {}

    class Template:
        def render(self, values, **_):
            shown.update(values)
            return ""

    monkeypatch.setattr(page.Environment, "get_template", lambda *_: Template())
    page.render(report)
    assert shown["sentence_texts"][0] == {
        "source": "[ x",
        "reference": "l' an",
        "translations": {"a": {"text": '" an', "BLEU": 1}},
    }
    assert shown["attention"][0][0]["rows"] == ["l'", "an"]
    assert shown["attention"][0][0]["columns"] == ["[", "x"]
    page.render({**report, "moses_escapes": False})
    assert shown["sentence_texts"] == report["sentence_texts"]  # of plain text, in which &apos; is what was written


def test_the_json_holds_the_texts_of_the_data(report):
    figures = json.loads(to_json(report))
    assert "moses_escapes" not in figures
    assert figures["sentence_texts"]["0"] == report["sentence_texts"][0]
    assert figures["attention"]["0"][0]["rows"] == ["l&apos;", "an"]
    assert "percent" not in figures["attention"]["0"][0]
