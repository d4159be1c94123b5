"""How the files of the report are written, and what the page and the JSON show of the texts."""

import json
import os
from pathlib import Path

import pytest
from helpers import dictionary_of, task_of

from bert_fused_lab import compare
from bert_fused_lab.evidence.attention import AttentionMap
from bert_fused_lab.evidence.files import EvidenceError
from bert_fused_lab.evidence.translating import Texts
from bert_fused_lab.report import command
from bert_fused_lab.report.page import HEIGHT, WIDTH, line_chart, to_json


def test_files_are_written_together_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "compare", lambda _: {"tests": []})
    monkeypatch.setattr(command, "render", lambda _: "new")
    monkeypatch.setattr(command, "to_json", lambda _: "{}")
    first, second = tmp_path / "a.html", tmp_path / "a.json"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.html").symlink_to(tmp_path / "elsewhere" / "a.html")
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda new, file: new.parent == file.parent and replace(new, file))
    compare.main(["data", "--baseline", "a=b", "--output", str(tmp_path / "link.html")])  # of another disk, perhaps
    assert (tmp_path / "elsewhere" / "a.html").read_text() == "new"
    first.write_text("old", encoding="utf-8")
    given = ["data", "--baseline", "a=b", "--output", str(first), "--json", str(second)]
    compare.main(given)
    assert (first.read_text(), second.read_text()) == ("new", "{}")

    monkeypatch.setattr(command, "render", lambda _: "newer")
    write_text = Path.write_text

    def full(path, *text):
        if path.name == ".a.json.new":
            raise OSError("disk full")
        return write_text(path, *text)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(EvidenceError, match=r"a\.json cannot be written, and nothing was changed \(disk full\)"):
        compare.main(given)
    assert (first.read_text(), second.read_text()) == ("new", "{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.json", "elsewhere", "link.html"]


def test_the_page_shows_the_characters_that_moses_escaped():
    """A text that no Moses made keeps ``&apos;``, which is what was written."""
    for symbols, shown in ((["&apos;", "an"], "l' an"), (["a@@", "n"], "l&apos; an")):
        texts = Texts(task_of(dictionary_of(*symbols), dictionary_of("a")), "auto", "none")
        assert texts.shown("l&apos; an") == shown
        found = AttentionMap("BERT", ["l&apos;"], ["an"], [], []).figures(texts.shown)
        assert (found["rows"], found["columns"]) == ([shown.split()[0]], ["an"])


def test_the_json_leaves_the_weights_to_the_page():
    report = {"attention": {0: [{"run": "a", "percent": [[1]]}]}, "data": "x"}
    assert json.loads(to_json(report)) == {"attention": {"0": [{"run": "a"}]}, "data": "x"}


# --- ticks, lines and dots of the charts


@pytest.mark.parametrize(
    "points",
    [[(1240, 3.0)], [(1, 2.0), (2, 2.5)], [(5, 0.0)], [(0, 1e20)], [(1, 3.0), (4, -2.0)], [(7, 1.0), (8, 1.0)]],
)
def test_each_mark_of_an_axis_has_a_text_of_its_own(points):
    chart = line_chart("title", {"a": points})
    for ticks in (chart["x_ticks"], chart["y_ticks"]):
        texts = [tick["text"] for tick in ticks]
        assert len(set(texts)) == len(texts) > 1
    places = [float(tick["text"].replace(",", "")) for tick in chart["x_ticks"]]
    assert places[0] <= points[0][0] <= points[-1][0]
    assert all(place == int(place) for place in places)


def test_a_chart_is_inside_its_drawing():
    """And a curve of one point is a dot."""
    chart = line_chart("title", {"a": [(10, 3.0), (500, -2.0)], "b": [(10, 3.0)], "none": []})
    assert list(chart["lines"]) == ["a", "b"]
    assert {name: "{},{}".format(*dot) for name, dot in chart["dots"].items()} == {"b": chart["lines"]["a"].split()[0]}
    points = [tuple(map(float, point.split(","))) for line in chart["lines"].values() for point in line.split()]
    assert all(chart["left"] <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert points[0][0] < points[1][0]
    assert points[0][1] < points[1][1]  # y grows downwards
    assert chart["last"] == {"a": -2.0, "b": 3.0}
    assert line_chart("title", {"none": []}) is None
    assert line_chart("flat", {"a": [(5, 1.0)]}) is not None
