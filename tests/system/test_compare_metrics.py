"""Texts of a report for the metrics of other programs, and the scores that these gave."""

import json
import re
import shutil

import pytest
from conftest import REPORT_QUICK, hypotheses, reported
from subword_nmt.apply_bpe import BPE

from bert_fused_plugin.commands.compare import main
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.page import render
from bert_fused_plugin.reports.text_files import write_texts


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_the_files_have_the_texts_of_the_report(workspace, plain, tmp_path):
    data, out = shutil.copytree(workspace.data, tmp_path / "data"), tmp_path / "text"
    for file in sorted(data.glob("test.*")):
        shutil.copy(file, data / file.name.replace("test.", "test1."))
    (tmp_path / "other").write_text("".join(f"a {i}\n" for i in range(30)), encoding="utf-8")
    runs = [f"plain={plain}", f"fused={workspace.save_dir},{workspace.checkpoint}"]
    more = ["--hypotheses", f"other={tmp_path}/{{subset}}", "--write-text", out]
    for name in ("test", "test1"):
        shutil.copy(tmp_path / "other", tmp_path / name)
    report = reported(data, *runs, more=more)
    systems = ["plain.1", "fused.1", "fused.2", "other.1"]
    names = ["source", "reference", *systems, *(f"{name}.jsonl" for name in systems)]
    assert sorted(p.name for p in out.iterdir()) == sorted(f"{s}.{name}" for s in ("test", "test1") for name in names)
    read = {name: lines(out / f"test.{name}") for name in names}
    assert {len(found) for found in read.values()} == {30}
    assert read["other.1"] == lines(tmp_path / "other")
    for number, sentence in report["sentence_texts"].items():
        assert read["source"][number] == sentence["source"]
        assert read["reference"][number] == sentence["reference"]
        assert read["fused.1"][number] == sentence["translations"]["fused"]["text"]
    rows = [json.loads(row) for row in read["fused.2.jsonl"]]
    sides = zip(read["source"], read["fused.2"], read["reference"])
    assert rows == [dict(zip(("source", "hypothesis", "reference"), each)) for each in sides]
    done = workspace.run(
        "sacrebleu",
        out / "test.reference",
        "-i",
        out / "test.fused.1",
        "-b",
        "-w",
        "6",
        "--tokenize",
        "none",
        "--force",
    )
    assert float(done.stdout) == pytest.approx(report["systems"][1]["scores"]["BLEU"]["seeds"][0], abs=1e-6)


def test_no_text_ends_its_line(tmp_path):
    write_texts(tmp_path / "a" / "b", "test", ["a\u2028b \r c"], ["d\x85e"], [("x", [["f\x0bg  h"]])])
    assert (tmp_path / "a" / "b" / "test.source").read_text(encoding="utf-8") == "a b c\n"
    row = '{"source": "a b c", "hypothesis": "f g h", "reference": "d e"}\n'
    assert (tmp_path / "a" / "b" / "test.x.1.jsonl").read_text(encoding="utf-8") == row


def test_scores_of_other_metrics_are_tested_too(workspace, plain, tmp_path):
    """Lower is better for errors, whose gain is then a loss."""
    for name, mean in (("plain.1", 5), ("fused.1", 4), ("fused.2", 3)):
        numbers = [mean + (i % 3) / 10 for i in range(30)]
        (tmp_path / f"test.{name}.x").write_text("".join(f"{number}\n" for number in numbers), encoding="utf-8")
    given = f"{tmp_path}/{{subset}}.{{system}}.{{seed}}.x"
    runs = f"plain={plain}", f"fused={workspace.save_dir},{workspace.checkpoint}"
    report = reported(workspace.data, *runs, more=["--error-scores", f"MetricX={given}", "--scores", f"COMET={given}"])
    plain_scores, fused = (system["scores"] for system in report["systems"])
    assert list(fused) == list(report["signatures"]) == ["BLEU", "chrF", "TER", "COMET", "MetricX"]
    assert (plain_scores["COMET"]["score"], fused["COMET"]["seeds"]) == (pytest.approx(5.1), pytest.approx([4.1, 3.1]))
    assert fused["MetricX"]["gain"] == pytest.approx(-1.5)
    assert fused["MetricX"]["p"] == fused["COMET"]["p"] == pytest.approx(1 / 21)
    assert fused["MetricX"]["p_seeds"] == pytest.approx([1 / 21] * 2)
    assert (fused["COMET"]["better"], fused["MetricX"]["better"]) == (-1, 1)
    assert f"mean of {given}" in report["signatures"]["COMET"]
    by_comet, by_metricx = report["verdicts"][-2:]
    assert by_comet.startswith("By COMET, fused is worse than plain: -1.5000 (95 % interval -")
    assert by_metricx.startswith("By MetricX, fused is better than plain: -1.5000 (95 % interval -")
    assert by_metricx.endswith("p = 0.048; lower is better).")
    page = render(report)
    assert re.findall(r"MetricX<small> mean, ↓|TER<small> %, ↓|COMET<small> mean<", page) == [
        "TER<small> %, ↓", "COMET<small> mean<", "MetricX<small> mean, ↓"
    ]  # fmt: skip
    assert '<td class="number up">3.6000<small>' in page


def test_typing_errors_cost_what_typed_lines_cost(workspace, plain, codes, tmp_path):
    """Two seeds of one system, and a system without BERT; BERT reads the raw lines."""
    runs = f"plain={plain}", f"fused={workspace.save_dir},{workspace.checkpoint}"
    more = ["--typos", "0.3", "--codes", codes, "--write-text", tmp_path / "text"]
    report = reported(workspace.data, *runs, more=more)
    [test] = report["tests"]
    typos = test["typos"]
    assert [system["name"] for system in typos["systems"]] == ["plain", "fused"]
    typed, sources = (lines(tmp_path / "text" / name) for name in ("test.typos.source", "test.source"))
    assert typos["example"] in [{"source": old, "typed": new} for old, new in zip(sources, typed) if old != new]
    assert typos["letters"] == sum(map(str.isalpha, "".join(sources)))
    assert 0.2 < sum(typos["errors"].values()) / typos["letters"] < 0.35
    assert typos["verdict"].startswith("With typing errors, plain ")
    bpe = BPE(codes.open(encoding="utf-8"))
    for name, texts in (("typed.en", map(bpe.process_line, typed)), ("test.en", typed)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
    workspace.run(
        "fairseq-preprocess", "-s", "en", "-t", "de", "--srcdict", f"{workspace.data}/dict.en.txt", "--tgtdict",
        f"{workspace.data}/dict.de.txt", "--testpref", "typed", "--only-source", "--destdir", "typed", cwd=tmp_path,
    )  # fmt: skip
    shutil.copy(f"{workspace.data}/dict.de.txt", tmp_path / "typed")
    for name, checkpoint in (("plain.1", plain / "checkpoint_best.pt"), ("fused.2", workspace.checkpoint)):
        out = workspace.generate(
            "--path", checkpoint, "--remove-bpe", "--bert-text", tmp_path, "-s", "en", "-t", "de",
            data=tmp_path / "typed",
        ).stdout  # fmt: skip
        made, found = lines(tmp_path / "text" / f"test.typos.{name}"), hypotheses(out)
        assert made == [found[i][1] for i in range(30)] != lines(tmp_path / "text" / f"test.{name}")
    fused = typos["systems"][1]["scores"]["BLEU"]
    assert fused["gain"] == pytest.approx(fused["score"] - report["systems"][1]["scores"]["BLEU"]["score"])
    assert "dropped (" in render(report)


def test_typing_errors_that_cannot_be_made(workspace, plain, tmp_path):
    command = [workspace.data, "--baseline", f"plain={plain}", *REPORT_QUICK, "--output", f"{tmp_path}/x.html"]
    (tmp_path / "codes").write_text("#version: 0.2\nx y\n", encoding="utf-8")
    for flags, said in [
        (
            ["0.1"],
            "--typos must split words with errors as the data is split (subword_nmt), and no file for this is given",
        ),
        (["0.1", "--codes", f"{tmp_path}/codes"], "codes restores "),
        (["1.5"], "--typos must be above 0 and at most 1, got 1.5"),
        (["0.1", "--bert-text", "x"], "--typos and --bert-text do not work together"),
    ]:
        with pytest.raises(BertFusedError) as error:
            main([*command, "--typos", *flags])
        assert said in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("x=all", "must be a file for each of plain, fused, and for each seed; write {system} and {seed} where"),
        ("x={system}.no", "plain.no cannot be read"),
        ("x={system}.few", "plain.few has 2 lines, but 'test' of "),
        ("x={system}.bad", "plain.bad, line 2, must be a number, got 'nan'"),
        (
            "BLEU={system}.bad",
            "there are two metrics of the name BLEU; give each of --scores and --error-scores its own",
        ),
    ],
)
def test_scores_that_do_not_fit(workspace, plain, tmp_path, given, said):
    (tmp_path / "plain.few").write_text("1\n2\n", encoding="utf-8")
    (tmp_path / "plain.bad").write_text("1\nnan\n" + "3\n" * 28, encoding="utf-8")
    name, file = given.split("=")
    command = [workspace.data, "--baseline", f"plain={plain}", "--run", f"fused={workspace.save_dir}", *REPORT_QUICK]
    with pytest.raises(BertFusedError) as error:
        main([*command, "--output", f"{tmp_path}/x.html", "--scores", f"{name}={tmp_path}/{file}"])
    assert said in str(error.value)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    for folder in ("file", "no/text"):
        with pytest.raises(BertFusedError, match=r"--write-text .* must be a folder, new or not, in one that can be"):
            main(["data", "--baseline", "a=b", "--output", f"{tmp_path}/x", "--write-text", f"{tmp_path}/{folder}"])
