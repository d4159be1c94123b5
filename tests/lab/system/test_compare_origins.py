"""bert-fused-compare on runs that began from others: the headline, the curves, the page, and what stderr says."""

import json
import re
from pathlib import Path

import pytest
from workspace import REPORT_HOW, load, updates


@pytest.fixture(scope="module")
def begun(workspace, plain, tmp_path_factory):
    """A run of each kind that began from the transformer: its --save-dir, with its log."""
    starts = {
        "fused": ["--bert-warm-start", plain / "checkpoint_best.pt"],
        "more": ["--finetune-from-model", workspace.save_dir + "/checkpoint_best.pt"],
    }
    found = {}
    for name, flags in starts.items():
        found[name] = tmp_path_factory.mktemp(name)
        done = workspace.train(*flags, "--max-epoch", "1", save_dir=found[name])
        (found[name] / "train.log").write_text(done.stdout, encoding="utf-8")
    return found


def test_the_report_of_runs_that_began_from_others(workspace, plain, begun, tmp_path):
    done = workspace.run(
        "bert-fused-compare", workspace.data, "--baseline", f"plain={plain}",
        "--run", f"fused={begun['fused']}", "--run", f"more={begun['more']}", "--output", tmp_path / "report.html",
        "--json", tmp_path / "report.json", "--samples", "100", "--examples", "2", *REPORT_HOW,
    )  # fmt: skip
    figures = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    base, first = plain / "checkpoint_best.pt", updates(load(plain / "checkpoint_best.pt"))
    best = Path(workspace.save_dir) / "checkpoint_best.pt"
    own = updates(load(begun["fused"] / "checkpoint_best.pt"))
    assert [run["began_from"] for run in figures["runs"]] == [
        [],
        [{"path": str(base), "updates": first}],
        [{"path": str(best), "updates": updates(load(best))}],
    ]
    assert f"began from {base} after {first:,} updates" in page

    [said] = figures["verdicts"]
    assert f"fused began from plain and was fine-tuned for {own:,} updates" in said
    assert said.endswith(f"fairseq-train {workspace.data} ... --finetune-from-model {base} --max-update {own}")
    assert said in done.stdout.splitlines()
    points = figures["curves"]
    assert points["plain"]["valid loss"][0][0] < first
    assert [x for x, _ in points["fused"]["valid loss"]] == [first + own]

    lines, tokens = done.stderr.splitlines(), "151 source tokens"
    for number, title in enumerate(["plain", "fused", "fused, BERT off", "fused, BERT shuffled"], 1):
        shown = [line for line in lines if line.startswith(f"translation {number} of 9: {title}: ")]
        assert [re.sub(r"\d+ s$", "0 s", line.split(": ")[-1]) for line in shown] == [tokens, f"{tokens} in 0 s"]
    assert f"loading plain from {base}" in lines
    assert not re.search("translation|loading|tokens in", done.stdout)
