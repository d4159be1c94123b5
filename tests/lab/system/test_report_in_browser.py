"""The page of bert-fused-compare in headless Chromium, and what it says."""

import html
import json
import re
import shutil
import subprocess

import pytest
from workspace import REPORT_HOW

from bert_fused_lab.compare import main
from bert_fused_lab.report.page import render


@pytest.fixture
def browse(tmp_path):
    """Open *page* with *script* at its end, in a window of 1100 or a frame of *width*; return what it yields."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        pytest.skip("no Chromium here: the page is not tried in a browser")

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


def test_one_run_alone(workspace, capsys, tmp_path):
    page, figures = tmp_path / "report.html", tmp_path / "report.json"
    given = [workspace.data, "--baseline", f"fused={workspace.save_dir}", "--output", page, "--json", figures]
    main([str(word) for word in (*given, *REPORT_HOW, "--samples", "100", "--examples", "3")])
    report = json.loads(figures.read_text(encoding="utf-8"))
    [test] = report["bert_tests"]
    assert report["question"] == "How good is fused from English to German on test?"
    [verdict] = report["verdicts"]
    assert test["verdict"] is None  # it does not translate yet
    assert verdict.startswith("fused has BLEU 0.00, chrF ")
    assert capsys.readouterr().out.splitlines() == [verdict, f"written: {page}", f"written: {figures}"]
    scores = [
        report["sentence_texts"][str(i)]["translations"]["fused"]["chrF"] for i in report["examples"]["fused"]["best"]
    ]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > max(
        report["sentence_texts"][str(i)]["translations"]["fused"]["chrF"] for i in report["examples"]["fused"]["worst"]
    )
    shown = page.read_text(encoding="utf-8")
    assert ">How good is it?</h2>" in shown
    assert f'<p class="answer">{verdict}</p>' in shown
    assert re.search(r'class="gain[^>]*>([^<]*)<', shown)[1] == f"{scores[0]:.1f} chrF"


def test_the_page_begins_with_question_answer_and_gain(browse, report):
    """Before anything is scrolled; in the figure, the dot is on its line, and left of 0."""
    script = """
    const place = (selector) => document.querySelector(selector).getBoundingClientRect();
    return {title: document.title, first: document.querySelector('h1').textContent, errors,
            said: document.querySelector('h1').nextElementSibling.textContent,
            order: place('h1').top < place('.answer').top && place('.answer').bottom < place('.gains').top,
            unscrolled: place('.gains').bottom < 900, text: document.querySelector('.gains .number').textContent};
    """
    made = reloaded(json.dumps(report))
    made["tests"][0]["systems"][1]["scores"]["BLEU"].update(gain=-1.5, gain_interval=[-2.5, 0.25])
    page = render(made)
    zero, left, width, dot = map(float, re.findall(r"(?:left|width):([\d.]+)%", page)[:4])
    assert left < dot < min(zero, left + width)
    assert browse(page, script) == {
        "title": "Does BERT help English to German on test?",
        "first": "Does BERT help English to German on test?",
        "said": report["verdicts"][0],
        "order": True,
        "unscrolled": True,
        "text": "-1.50 (-2.50 to +0.25)",
        "errors": [],
    }


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


def reloaded(text):
    """Return the figures of *text*, whose keys JSON has made text, for the page."""
    figures = json.loads(text)
    for lists in figures["examples"].values():
        lists.update({kind: list(map(str, numbers)) for kind, numbers in lists.items()})
    return figures


def test_layers_keep_their_numbers_and_attention_that_is_too_even_is_told_of(browse, report):
    """A new first layer has no attention to BERT; the last layer is too even, and the others are not."""
    gated = reloaded(json.dumps(report))
    for maps in gated["attention"].values():
        for found in maps:
            found["percent"] = [found["percent"][0] if found["kind"] == "source" else None, *found["percent"]]
            found["too_even"] = [None, None, "The attention means nothing."]
    for run in gated["runs"]:
        run["too_even"] = ["It means nothing."] if run["name"] == "fused" else []
        for kind, layers in run["entropy"].items():
            run["entropy"][kind] = [layers[0] if kind == "source" else None, *layers]
    script = """
    document.querySelector('.example button').click();
    const all = (place, selector) => [...place.querySelectorAll(selector)];
    const texts = (place, selector) => all(place, selector).map((element) => element.textContent);
    const maps = all(document, '.example:first-of-type .map').slice(-2);
    const warnings = () => all(maps[1], 'p').filter((p) => !p.hidden && p.textContent.includes('means'));
    const before = warnings().map((p) => p.textContent), first = maps.map((map) => map.querySelector('select').value);
    maps[1].querySelector('select').value = 1;
    maps[1].querySelector('select').dispatchEvent(new Event('change'));
    return {errors, before, after: warnings().length, first, layers: maps.map((map) => texts(map, 'option')),
            rows: all(document, '[aria-labelledby=entropy] tbody tr').map((row) =>
                texts(row, 'td').map((text) => text !== '').slice(1)),
            heads: texts(document, '[aria-labelledby=entropy] thead th').slice(2),
            said: texts(document, 'section .note').filter((text) => text.includes('It means'))};
    """
    assert browse(render(gated), script) == {
        "errors": [],
        "before": ["The attention means nothing."],
        "after": 0,
        "first": ["2", "2"],
        "layers": [["1", "2", "3"], ["2", "3"]],
        "rows": [[True, True, True], [True, True, True], [False, True, True]],
        "heads": ["layer 1", "layer 2", "layer 3"],
        "said": ["fused: It means nothing."],
    }


def test_names_that_differ_in_case_only(report):
    page = render(reloaded(json.dumps(report).replace('"plain"', '"FUSED"')))
    examples = re.findall(r"<article.*?</article>", page, re.DOTALL)
    assert examples
    for example in examples:
        assert re.findall(r"</span>(\w+) <small>BLEU", example) == ["FUSED", "fused"]


@pytest.mark.parametrize("bert", [True, False])
def test_what_the_page_of_one_run_says(report, bert):
    alone = {**report, "runs": report["runs"][1:] if bert else report["runs"][:1], "verdicts": []}
    alone["baseline"] = name = alone["runs"][0]["name"]
    alone["examples"] = {name: report["examples"]["fused"]}
    alone["curves"] = {}
    alone["systems"] = [found for found in report["systems"] if found["name"] == name]
    alone["tests"] = [{**report["tests"][0], "systems": alone["systems"], "verdicts": ["said"]}]
    page = render(alone)
    scores = page[page.index('id="scores"') : page.index("</table>")]
    assert re.findall(r'<th scope="col">(\w+)', scores) == ["system", "BLEU", "chrF", "TER", "length"]
    assert scores.count("<td") == 4
    said = "without BERT, and give that run as --baseline." if bert else "with BERT, and give that run as --run."
    assert f"This report has one run only. To see whether BERT helps, train the same model {said}</p>" in page


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
    hostile = reloaded(json.dumps(hostile).replace('"PLAIN"', json.dumps(name)))
    hostile["remarks"], hostile["command"], hostile["tests"][0]["verdicts"] = [evil], evil, [evil, evil]
    hostile["question"] = hostile["tests"][0]["subset"] = evil
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
