"""The tables of benchmarks/evidence_report.py, from the logs and the report of one made-up corpus."""

import json
import os
import shutil
import subprocess
import sys

import evidence_report
import pytest
from documentation import ROOT

CURVES = {  # nll_loss and BLEU after 10, 20, 30 and 40 updates
    "transformer": [(9.0, 1.0), (8.0, 2.0), (7.0, 3.0), (6.0, 4.0)],
    "continued": [(5.5, 5.0), (5.0, 6.0), (5.2, 7.0), (4.8, 6.5)],
    "bert_fused": [(5.6, 6.0), (4.9, 6.8), (4.7, 6.9), (4.75, 6.9)],
}


def log_of(system):
    lines = []
    if system == "bert_fused":
        lines += ["2026-01-01 10:01:00 | INFO | x | BERT cache: 1,099 word pieces in 45 s"]
        lines += ["2026-01-01 10:01:00 | INFO | x | BERT cache: 99 word pieces in 15 s"]
    for epoch, (nll, bleu) in enumerate(CURVES[system], 1):
        updates, ups = 10 * epoch, 0.5 if epoch == 2 else 0.25
        lines += [
            f"2026-01-01 10:02:00 | INFO | train_inner | epoch 00{epoch}:     10 / 20 loss=9, nll_loss=9, "
            f"ups={ups}, num_updates={updates}, wall=1",
            f"2026-01-01 10:02:00 | INFO | valid | epoch 00{epoch} | valid on 'valid' subset | loss 9 | "
            f"nll_loss {nll} | bleu {bleu} | num_updates {updates}",
        ]
    return "\n".join(lines)


def scores(bleu, p):
    return {name: {"score": bleu, "interval": 1.0, "p": p} for name in ("BLEU", "chrF", "TER")}


def bucket(name, *bleu):
    return {"name": name, "sentences": 7, "BLEU": dict(zip(CURVES, bleu))}


@pytest.fixture
def folder(tmp_path):
    part = tmp_path / "2500-1"
    part.mkdir()
    for system in CURVES:
        (part / f"{system}.log").write_text(log_of(system))
    runs = [("transformer", 10.0, 0.001), ("continued", 20.0, None), ("bert_fused", 22.5, 0.02)]
    transformer = {"path": "/home/me/transformer.pt", "updates": 40}
    began = {"transformer": [], "continued": [transformer], "bert_fused": [transformer]}
    report = {
        "command": "bert-fused-compare /home/me/data-bin",
        "sentence_texts": {"3": "a sentence of the corpus"},
        **dict.fromkeys(["sentences", "decoding", "hardware", "baseline", "signatures"], 1),
        "runs": [
            {
                "name": name,
                "checkpoint": "/home/me/average.pt",
                "scores": scores(bleu, p),
                "began_from": began[name],
                **dict.fromkeys(["architecture", "updates", "parameters", "length", "entropy", "alphas"], 2),
            }
            for name, bleu, p in runs
        ],
        "buckets": {"length": [bucket("1-10", 1.0, 2.0, 3.0)], "rare": [bucket("none", 4.0, 5.0, None)]},
        "bert_tests": [{"run": "bert_fused", "states": [{"name": "shuffled", "scores": scores(3.25, 0.001)}]}],
    }
    (part / "report.json").write_text(json.dumps(report))
    return tmp_path


@pytest.fixture
def report(monkeypatch, capsys):
    """Run the command, and return what it prints."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["evidence_report.py", *map(str, args)])
        evidence_report.main()
        return capsys.readouterr().out

    return run


def part_of(folder):
    return evidence_report.Part(evidence_report.figures_of(folder))


def test_scores_and_gains(folder):
    part = part_of(folder / "2500-1")
    assert evidence_report.scores_table([part])[2:] == [
        "| 2,500 pairs | 4 + 4, 4 | BLEU | 10.0 ± 1.0 (p = 0.001) | 20.0 ± 1.0 | 22.5 ± 1.0 (p = 0.020) | +2.5 | 3.2 |",
        "|  |  | chrF | 10.0 ± 1.0 (p = 0.001) | 20.0 ± 1.0 | 22.5 ± 1.0 (p = 0.020) | +2.5 |  |",
    ]


def test_updates_and_minutes_to_the_quality_of_the_control(folder):
    part = part_of(folder / "2500-1")
    assert evidence_report.time_table([part])[2:] == [
        "| 2,500 pairs | 5.50 bits | 10 | 0.3 | 20 | 0.7 | 1.7 |",
        "| 2,500 pairs | 5.00 bits | 20 | 0.7 | 20 | 0.7 | 1.7 |",
        "| 2,500 pairs | 4.80 bits | 40 | 1.3 | 30 | 1.0 | 2.0 |",
        "| 2,500 pairs | 5.00 BLEU | 10 | 0.3 | 10 | 0.3 | 1.3 |",
        "| 2,500 pairs | 6.00 BLEU | 20 | 0.7 | 10 | 0.3 | 1.3 |",
        "| 2,500 pairs | 7.00 BLEU | 30 | 1.0 | not reached |  |  |",
    ]


def test_all_systems_and_where_they_differ(folder):
    part = part_of(folder / "2500-1")
    better = "22.5 ± 1.0 (p = 0.020)"
    assert evidence_report.systems_table(part)[2:] == [
        "| `transformer` | 40 | 4 | 6.000 | 10.0 ± 1.0 (p = 0.001) | 10.0 ± 1.0 (p = 0.001) | 10.0 ± 1.0 (p = 0.001) |",
        "| `continued` | 40 + 40 | 4 | 4.800 | 20.0 ± 1.0 | 20.0 ± 1.0 | 20.0 ± 1.0 |",
        f"| `bert_fused` | 40 + 40 | 4 | 4.700 | {better} | {better} | {better} |",
    ]
    assert evidence_report.buckets_table(part) == [
        "| BLEU of sentences | number | `transformer` | `continued` | `bert_fused` |",
        "| --- | --- | --- | --- | --- |",
        "| length: 1-10 | 7 | 1.0 | 2.0 | 3.0 |",
        "| rare words: none | 7 | 4.0 | 5.0 |  |",
    ]


def test_the_command_prints_both_and_draws(folder, report):
    pytest.importorskip("matplotlib")
    shutil.copytree(folder / "2500-1", folder / "2500-2")
    out = report(folder, "--pictures", folder)
    assert out.count("| 2,500 pairs | 4 + 4, 4 | BLEU |") == 1  # of seed 1
    assert out.index("| 2,500 pairs | 1 | BLEU |") < out.index("| 2,500 pairs | 2 | BLEU |")
    assert "seconds of BERT's states: 2,500 pairs: 60" in out
    for name in ("data_curve.png", "learning_curves.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_the_figures_alone_give_the_same_tables(folder, tmp_path, report):
    figures = tmp_path / "docs" / "evidence"
    *tables, written, _ = report(folder, "--json", figures).split("\n")
    assert written == f"{figures / '2500-1.json'} is written"
    assert report(figures).split("\n")[:-1] == tables
    text = (figures / "2500-1.json").read_text()
    assert "corpus" not in text
    assert "/home/me" not in text


def test_a_folder_without_reports_is_an_error(tmp_path, report, capsys):
    with pytest.raises(SystemExit):
        report(tmp_path)
    assert "run benchmarks/evidence.sh first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "lines", "message"),
    [
        ("2501", 5000, "unknown part '2501'; parts: 2500 10000 40000 160000 systems long multi30k"),
        ("2500", 0, "has no train.en; it must hold {train,valid}.{en,de}"),
        ("2500", 3499, "train.en has fewer than 3500 lines, which the part 2500 needs"),
    ],
)
def test_the_script_says_what_is_wrong_before_it_trains(tmp_path, part, lines, message):
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        (tmp_path / name).write_text("a\n" * lines)
    env = {**os.environ, "DATA": str(tmp_path), "OUT": str(tmp_path / "out")}
    done = subprocess.run([ROOT / "benchmarks" / "evidence.sh", part], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not list(tmp_path.glob("out/*/raw/*"))
