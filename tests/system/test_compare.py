"""bert-fused-compare: the real command, what it refuses, and its page in a browser."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sacrebleu
import torch
from conftest import ROOT, hypotheses

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.compare import compare, main, parse_args
from bert_fused_plugin.reports.comparison import bert_verdict
from bert_fused_plugin.reports.page import render
from bert_fused_plugin.reports.scoring import Score

pytestmark = pytest.mark.system
HOW = ["--beam", "3", "--max-len-b", "10", "--cpu"]
QUICK = [*HOW, "--no-bert-tests", "--samples", "10", "--examples", "2"]
TRANSFORMER = (
    "--task translation --arch transformer --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-layers 2 "
    "--decoder-layers 2 --encoder-attention-heads 2 --decoder-attention-heads 2 --share-all-embeddings "
    "--criterion label_smoothed_cross_entropy --optimizer adam "
    "--lr 0.01 --max-tokens 120 --max-epoch 2 --cpu --log-format json --log-interval 5"
).split()


@pytest.fixture(scope="module")
def plain(workspace, tmp_path_factory):
    """The --save-dir of fairseq's own transformer, with its log."""
    save_dir = tmp_path_factory.mktemp("plain")
    done = workspace.run("fairseq-train", workspace.data, *TRANSFORMER, "--save-dir", save_dir)
    (save_dir / "train.log").write_text(done.stdout, encoding="utf-8")
    return save_dir


@pytest.fixture(scope="module")
def written(workspace, plain, tmp_path_factory):
    """The folder with report.html and report.json of the real command."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "fused.log").write_text(workspace.first_run.stdout, encoding="utf-8")
    workspace.run(
        "python", ROOT / "scripts" / "compare.py", workspace.data, "--baseline", f"plain={plain}",
        "--run", f"fused={workspace.save_dir}", "--run", f"twin={plain / 'checkpoint_best.pt'}",
        "--log", f"fused={folder / 'fused.log'}", "--output", folder / "report.html",
        "--json", folder / "report.json", *HOW,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def report(workspace, plain):
    """The figures of a report with fewer of them, made in this process."""
    runs = ["--baseline", f"plain={plain}", "--run", f"fused={workspace.save_dir}"]
    return compare(parse_args([workspace.data, *runs, "--output", "unused", *QUICK]))


@pytest.fixture
def refused(workspace, plain, tmp_path):
    """Run the command in this process; return the message of its refusal."""

    def run(*arguments, data=None, baseline=None, output=tmp_path / "report.html"):
        given = [data or workspace.data, "--baseline", baseline or f"plain={plain}", "--output", output, *QUICK]
        with pytest.raises(BertFusedError) as error:
            main([str(word) for word in (*given, *(arguments or ["--run", f"fused={workspace.save_dir}"]))])
        assert not list(tmp_path.glob("*.html"))
        return str(error.value)

    return run


def test_the_scores_are_those_of_generate_and_sacrebleu(workspace, plain, written):
    figures = json.loads((written / "report.json").read_text(encoding="utf-8"))
    runs = {run["name"]: run for run in figures["runs"]}
    assert list(runs) == ["plain", "fused", "twin"]
    for name, task in (("plain", "translation"), ("fused", "bert_fused_translation")):
        out = workspace.generate("--path", runs[name]["checkpoint"], "--remove-bpe", task=task).stdout
        found = hypotheses(out)
        references = dict(re.findall(r"^T-(\d+)\t(.*)$", out, re.MULTILINE))
        texts = [found[i][1] for i in range(30)]
        sides = texts, [[references[str(i)] for i in range(30)]]
        bleu = sacrebleu.corpus_bleu(*sides, tokenize="none", force=True).score
        assert runs[name]["scores"]["BLEU"]["score"] == pytest.approx(bleu, abs=1e-6)
        assert runs[name]["scores"]["chrF"]["score"] == pytest.approx(sacrebleu.corpus_chrf(*sides).score, abs=1e-6)
        assert runs[name]["scores"]["TER"]["score"] == pytest.approx(sacrebleu.corpus_ter(*sides).score, abs=1e-6)
        for number, sentence in figures["sentence_texts"].items():
            assert sentence["translations"][name]["text"] == texts[int(number)]
            assert sentence["reference"] == references[number]


def test_what_the_json_holds(written):
    figures = json.loads((written / "report.json").read_text(encoding="utf-8"))
    plain, fused, twin = figures["runs"]
    assert [score["p"] for score in twin["scores"].values()] == [1.0] * 3
    assert figures["examples"]["twin"] == {"best": [], "worst": []}
    assert "tok:none" in figures["signatures"]["BLEU"]
    assert plain["parameters"]["unused"] > 0 == fused["parameters"]["unused"]
    assert plain["parameters"]["frozen"] == 0 < fused["parameters"]["frozen"]
    assert all(run["speed"]["sentences_per_second"] > 0 for run in figures["runs"])
    assert (list(plain["entropy"]), list(fused["entropy"])) == (["source"], ["source", "BERT"])
    [test] = figures["bert_tests"]
    assert [state["name"] for state in test["states"]] == ["on", "off", "shuffled", "random"]
    assert test["states"][0]["scores"]["BLEU"]["score"] == fused["scores"]["BLEU"]["score"]
    assert len({json.dumps(state["scores"]) for state in test["states"]}) > 2
    assert test["drops_bert"] is True
    assert sum(row["sentences"] for row in figures["buckets"]["length"]) == 30
    assert sum(row["sentences"] for row in figures["buckets"]["rare"]) == 30
    assert {"train loss", "valid loss", "valid nll_loss"} <= set(figures["curves"]["plain"])
    assert "valid bleu" in figures["curves"]["fused"]
    assert not [remark for remark in figures["remarks"] if "no curves" in remark]
    assert sorted(os.listdir(written)) == ["fused.log", "report.html", "report.json"]


def test_the_page_needs_nothing_else(written):
    page = (written / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"https?:|//[a-z]", re.sub(r"<code>.*?</code>", "", page))
    assert not re.findall(r"<(?:link|img|iframe)|@import|url\(", page)
    Balanced().feed(page)
    assert page.count("<polyline") >= 8


class Balanced(HTMLParser):
    """Checks that each element ends where it must."""

    VOID = ("meta", "br")

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_detokenised_references_from_a_file(workspace, plain, tmp_path):
    lines = (workspace.path / "test.de").read_text(encoding="utf-8").replace("@@ ", "").splitlines()
    (tmp_path / "ref").write_text("\n".join(lines) + "\n", encoding="utf-8")
    runs = ["--baseline", f"plain={plain}", "--run", f"fused={workspace.save_dir}", "--reference", tmp_path / "ref"]
    arguments = [workspace.data, *runs, "--detok", "moses", "--output", "unused", *QUICK]
    figures = compare(parse_args([str(word) for word in arguments]))
    assert "tok:13a" in figures["signatures"]["BLEU"]
    assert figures["references"] == str(tmp_path / "ref")
    # test sets without a target side need that file
    data = shutil.copytree(workspace.data, tmp_path / "data")
    for file in data.glob("test.en-de.de.*"):
        file.unlink()
    assert (
        compare(parse_args([str(data), *map(str, arguments[1:])]))["runs"][0]["scores"] == figures["runs"][0]["scores"]
    )


def test_a_run_without_a_log_has_no_curves_and_says_so(report):
    assert "valid loss" in report["curves"]["points"]["plain"]
    assert report["curves"]["points"]["fused"] == {}
    [remark] = [remark for remark in report["remarks"] if "no curves" in remark]
    assert remark.startswith("fused has no curves: no log beside ")
    assert remark.endswith("; give --log fused=FILE.")


def test_what_is_wrong_with_the_runs_is_told_together(refused, workspace, plain, tmp_path):
    (tmp_path / "empty").mkdir()
    message = refused(
        "--run", f"plain={workspace.save_dir}", "--run", f"a={tmp_path / 'missing.pt'}",
        "--run", f"b={tmp_path / 'empty'}", "--run", "nothing", "--log", f"c={plain}", "--log", f"a={tmp_path / 'x'}",
    )  # fmt: skip
    expected = [
        f"--run plain={workspace.save_dir}: there is another run of the name 'plain'; give each its own",
        f"--run a={tmp_path / 'missing.pt'}: there is no file {tmp_path / 'missing.pt'}; "
        "give a checkpoint, or a --save-dir",
        f"--run b={tmp_path / 'empty'}: there is no file {tmp_path / 'empty' / 'checkpoint_best.pt'}; "
        "name one of its checkpoint files",
        "--run takes NAME=PATH, got 'nothing'",
        f"--log c={plain}: no run has the name 'c'; there are plain, a, b",
        f"--log a={tmp_path / 'x'}: there is no file {tmp_path / 'x'}; leave it out for a report without its curves",
    ]
    assert message.splitlines() == expected


def test_a_damaged_checkpoint_is_named(refused, tmp_path):
    (tmp_path / "x.pt").write_bytes(b"nothing")
    assert f"--run x={tmp_path / 'x.pt'} cannot be read as a checkpoint" in refused("--run", f"x={tmp_path / 'x.pt'}")


def test_references_that_do_not_fit(refused, workspace, tmp_path):
    run = ["--run", f"fused={workspace.save_dir}", "--reference"]
    (tmp_path / "short").write_text("a\nb\n", encoding="utf-8")
    assert f"--reference {tmp_path / 'short'} has 2 lines, 'test' of " in refused(*run, tmp_path / "short")
    assert f"--reference {tmp_path / 'no'} cannot be read" in refused(*run, tmp_path / "no")
    data = shutil.copytree(workspace.data, tmp_path / "data")
    for file in data.glob("test.en-de.de.*"):
        file.unlink()
    assert "no de side of 'test'; give the references: --reference FILE" in refused(data=data)


def test_data_that_do_not_fit(refused, workspace, tmp_path):
    assert "has no --subset 'test9' for en-de" in refused("--subset", "test9", "--run", f"fused={workspace.save_dir}")
    data = shutil.copytree(workspace.data, tmp_path / "data")
    symbols = (data / "dict.en.txt").read_text(encoding="utf-8").splitlines()
    for lang in ("en", "de"):
        (data / f"dict.{lang}.txt").write_text("\n".join(symbols[::-1]) + "\n", encoding="utf-8")
    message = refused(data=data)
    assert f"dict.en.txt, which differs from {data / 'dict.en.txt'}; binarise the test set with" in message


def test_runs_from_elsewhere(refused, workspace, plain, tmp_path):
    """Where the data of the training are gone, dictionaries cannot be compared, and BERT's text may differ."""
    moved = edited(plain / "checkpoint_best.pt", tmp_path / "moved.pt", data=str(tmp_path / "gone"))
    data = shutil.copytree(workspace.data, tmp_path / "data")
    for lang in ("en", "de"):
        with open(data / f"dict.{lang}.txt", "a", encoding="utf-8") as file:
            file.write("new 1\n")
    message = refused("--run", f"a={workspace.save_dir}", data=data, baseline=f"b={moved}")
    assert f"--baseline b={moved} does not fit {data}; was it trained on it?" in message
    other = edited(plain / "checkpoint_best.pt", tmp_path / "other.pt", _name="translation_lev")
    message = refused("--run", f"c={other}")
    assert message == f"--run c={other} was trained with --task translation_lev; runs of translation and " + (
        "bert_fused_translation fit"
    )
    raw = edited(Path(workspace.checkpoint), tmp_path / "raw.pt", bert_text="some/where")
    runs = ["--baseline", f"plain={plain}", "--run", f"raw={raw}", "--output", "unused", *QUICK]
    remarks = compare(parse_args([workspace.data, *map(str, runs)]))["remarks"]
    assert [remark for remark in remarks if remark.startswith("raw was trained with --bert-text")]


def edited(checkpoint, target, **task):
    """Save *checkpoint* as *target* with another configuration of its task."""
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["task"].update(task)
    torch.save(state, target)
    return target


def test_a_run_of_the_other_direction_is_refused(refused, plain, tmp_path):
    back = edited(plain / "checkpoint_best.pt", tmp_path / "back.pt", source_lang="de", target_lang="en")
    message = refused("--run", f"back={back}")
    assert message.startswith(f"--run back={back} translates de-en, --baseline plain={plain}")


def test_outputs_are_checked_first(refused, tmp_path):
    assert "cannot be written (No such file or directory)" in refused(output=tmp_path / "no" / "report.html")
    assert "cannot be written: it is a directory" in refused(output=tmp_path)


# --- the page in a browser


@pytest.fixture(scope="session")
def chromium():
    """Chromium's command; installed where this process may, or the test is skipped."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    if not any(map(shutil.which, names)) and shutil.which("apt-get") and os.geteuid() == 0:
        print("installing chromium for the browser tests (apt-get)", file=sys.stderr)
        for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-qq", *command], capture_output=True, timeout=200)
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium here, and apt-get cannot install one: the page is not tried in a browser")
    return found


@pytest.fixture
def browse(chromium, tmp_path):
    """Open *page* with *script* at its end, in a window of 1100 or a frame of *width*; return what it yields."""

    def browse(page, script, width=None):
        probe = "<script>window.errors = []; window.onerror = (m) => errors.push(m);</script>"
        run = f"<script>document.title = 'probe:' + JSON.stringify((() => {{ {script} }})());</script></body>"
        page = page.replace("<head>", "<head>" + probe, 1).replace("</body>", run)
        if width is not None:
            frame = (
                f'<iframe id="f" style="width:{width}px;height:800px;border:0" srcdoc="{html.escape(page)}"></iframe>'
            )
            copy = "f.onload = () => document.title = f.contentDocument.title"
            page = f"<!DOCTYPE html><title></title>{frame}<script>{copy}</script>"
        file = tmp_path / "page.html"
        file.write_text(page, encoding="utf-8")
        flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
        flags += " --disable-component-update --disable-sync --window-size=1100,900 --dump-dom"
        done = subprocess.run(
            [chromium, *flags.split(), "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'user'}",
             file.as_uri()], capture_output=True, text=True, encoding="utf-8", timeout=100,
        )  # fmt: skip
        [title] = re.findall(r"<title>probe:(.*?)</title>", done.stdout) or pytest.fail(done.stderr[-2000:])
        return json.loads(html.unescape(title))

    return browse


CLICK = """
const button = document.querySelector('.example button');
const before = document.querySelectorAll('table.heat').length;
button.click();
const place = button.closest('.example').querySelector('.maps');
const cells = [...place.querySelectorAll('table.heat')].map((table) => table.querySelectorAll('tbody td').length);
const select = place.querySelector('select');
const seen = place.querySelector('table.heat').textContent;
select.value = 0;
select.dispatchEvent(new Event('change'));
const changed = place.querySelector('table.heat').textContent !== seen;
const titles = [...place.querySelectorAll('h5')].map((title) => title.textContent);
const shown = getComputedStyle(place).display !== 'none';
button.click();
return {before, cells, titles, shown, changed, number: button.dataset.number, errors,
        hidden: getComputedStyle(place).display === 'none', expanded: button.getAttribute('aria-expanded'),
        loaded: performance.getEntriesByType('resource').length};
"""


def test_one_run_alone(browse, workspace, capsys, tmp_path):
    page, figures = tmp_path / "report.html", tmp_path / "report.json"
    given = [workspace.data, "--baseline", f"fused={workspace.save_dir}", "--output", page, "--json", figures, *HOW]
    main([str(word) for word in (*given, "--samples", "10", "--examples", "3")])
    report = json.loads(figures.read_text(encoding="utf-8"))
    [test] = report["bert_tests"]
    on, shuffled = (test["states"][i]["scores"]["BLEU"]["score"] for i in (0, 2))
    assert f"{shuffled - on:+.2f} BLEU ({on:.2f} to {shuffled:.2f}, p = " in test["verdict"]
    assert capsys.readouterr().out.splitlines() == [test["verdict"], f"written: {page}", f"written: {figures}"]
    scores = [
        report["sentence_texts"][str(i)]["translations"]["fused"]["chrF"] for i in report["examples"]["fused"]["best"]
    ]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > max(
        report["sentence_texts"][str(i)]["translations"]["fused"]["chrF"] for i in report["examples"]["fused"]["worst"]
    )
    script = """
    document.querySelector('.example button').click();
    return {titles: [...document.querySelectorAll('.example:first-of-type .maps h5')].map((e) => e.textContent),
            heading: document.querySelector('h2').textContent, gain: document.querySelector('.gain').textContent,
            said: document.querySelector('.verdicts').textContent, errors};
    """
    assert browse(page.read_text(encoding="utf-8"), script) == {
        "titles": ["fused: attention to the source, in %", "fused: attention to BERT, in %"],
        "heading": "How good is it?",
        "gain": f"{scores[0]:.1f} chrF",
        "said": test["verdict"],
        "errors": [],
    }


@pytest.mark.parametrize(
    ("better", "said"), [(-1, "fused uses what BERT says: -2.00"), (0, "fused is not seen to use"), (1, "fused is not")]
)
def test_what_is_said_of_bert(better, said):
    on, shuffled = Score(30.0, 30.0, 1.0), Score(28.0, 28.0, 1.0, 0.5, better)
    verdict = bert_verdict("fused", {"on": {"BLEU": on}, "shuffled": {"BLEU": shuffled}})
    assert verdict is not None
    assert verdict.startswith(said)
    assert verdict.endswith(": -2.00 BLEU (30.00 to 28.00, p = 0.500) where BERT reads another sentence.")
    assert bert_verdict("fused", {"on": {"BLEU": on}}) is None


def test_a_click_on_a_sentence_shows_its_attention(browse, report):
    seen = browse(render(report), CLICK)
    maps = report["attention"][int(seen.pop("number"))]
    assert seen == {
        "before": 0,
        "cells": [len(found["rows"]) * len(found["columns"]) for found in maps],
        "titles": [f"{m['run']}: attention to {'BERT' if m['kind'] == 'BERT' else 'the source'}, in %" for m in maps],
        "shown": True,
        "changed": True,
        "errors": [],
        "hidden": True,
        "expanded": "false",
        "loaded": 0,
    }


@pytest.mark.parametrize("width", [390, 320])
def test_nothing_but_tables_is_wider_than_a_phone(browse, report, width):
    script = """
    document.querySelectorAll('.example button').forEach((button) => button.click());
    const wide = [...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll') && !e.closest('svg') &&
        e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML.slice(0, 80));
    return {wide, inner: innerWidth, page: document.documentElement.scrollWidth, errors};
    """
    seen = browse(render(report), script, width=width)
    assert seen.pop("page") <= width  # less a scroll bar
    assert seen == {"wide": [], "inner": width, "errors": []}


def test_all_text_is_shown_as_text(browse, report):
    evil = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>\"'&amp;"
    hostile = json.loads(json.dumps(report).replace("plain", "PLAIN"))
    name = hostile["baseline"] = hostile["runs"][0]["name"] = evil
    hostile = json.loads(json.dumps(hostile).replace('"PLAIN"', json.dumps(name)))
    hostile["remarks"], hostile["command"], hostile["verdicts"] = [evil], evil, [evil]
    hostile["examples"]["fused"] = {k: list(map(str, v)) for k, v in hostile["examples"]["fused"].items()}
    for sentence in hostile["sentence_texts"].values():
        sentence["source"] = sentence["reference"] = sentence["translations"][evil]["text"] = evil
    for maps in hostile["attention"].values():
        for found in maps:
            found["rows"][0] = found["columns"][0] = evil
    script = """
    document.querySelector('.example button').click();
    return {broken: window.broken || 0, images: document.images.length, errors,
            source: document.querySelector('.what').textContent, dd: document.querySelector('.example dd').textContent,
            head: document.querySelector('table.heat thead th').textContent,
            command: document.querySelector('.facts code').textContent};
    """
    seen = browse(render(hostile), script)
    assert seen == {"broken": 0, "images": 0, "errors": []} | dict.fromkeys(("source", "dd", "head", "command"), evil)


def test_dark_and_light_text_can_be_read():
    """Contrast of text and page is 4.5 or more (WCAG 2.2, 1.4.3), for each colour of text."""
    css = (Path(ROOT) / "bert_fused_plugin/reports/templates/report.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", part)) for part in css.split("@media", 2)[:2])
    for colours in (light, dark):
        for page in ("page", "panel"):
            for text in ("ink", "soft", "up", "down"):
                assert contrast(colours[text], colours[page]) >= 4.5, (text, page)


def contrast(one, other):
    def luminance(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))

    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)
