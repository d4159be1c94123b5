"""bert-fused-recipe on raw text: one command leads to a report."""

import json
import random
import re

import pytest
from fork_server import run_forked
from helpers import WORDS


def run(path, source, target, data, *steps, **options):
    """Run bert-fused-recipe in a folder."""
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    return run_forked("bert-fused-recipe", source, target, data, *given, *steps, cwd=path, timeout=600)


def write_text(folder):
    """Write pairs of random words, in order and reversed."""
    folder.mkdir()
    rng = random.Random(1)
    lines = [[rng.choice(WORDS[:15]) for _ in range(rng.randint(3, 8))] for _ in range(600)]
    for lang, step in (("en", 1), ("de", -1)):
        text = "".join(f"{' '.join(words[::step])}{'.' * (lang == 'de')}\n" for words in lines)
        (folder / f"train.{lang}").write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_raw_text_becomes_a_report_and_nothing_is_done_twice(tmp_path, bert_dir):
    write_text(tmp_path / "data")
    given = {"bert": bert_dir, "symbols": 60, "updates": 4, "more": 2, "train_flags": "--cpu", "out": tmp_path / "out"}
    place = (tmp_path, "en", "de", "data")
    done = run(*place, **given)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "prepare: 30 pairs of train are put aside for valid (seed 1)" in done.stdout
    assert re.search(r"\nexpected time, at most: \d+ (seconds|minutes) \(transformer ", done.stdout)
    assert f"\ntransformer: 4 updates (log: {tmp_path}/out/transformer.log)\n" in done.stdout
    assert "Embedding(" not in done.stdout  # fairseq prints the model
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in report["runs"]] == ["control", "transformer", "bert_fused"]
    assert (tmp_path / "out" / "bert-cache").exists()
    again = run(*place, "prepare", "estimate", "transformer", "control", "bert_fused", **given, cache_gb=0)
    assert again.returncode == 0
    assert "BERT's states would take more than --cache-gb 0, so BERT runs in every step" in again.stdout
    assert [line for line in again.stdout.splitlines() if line.endswith("done before")] == [
        f"{step}: done before" for step in ("prepare", "transformer", "control", "bert_fused")
    ]
    other = run(*place, "prepare", **{**given, "symbols": 50})
    assert other.returncode == 1
    assert "(before: --symbols 60; now: --symbols 50)" in other.stderr
