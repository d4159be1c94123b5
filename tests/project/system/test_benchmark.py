"""benchmarks/: they measure real work and report all of it.  Speed itself is never asserted."""

import json
import math
import subprocess
import sys

import pytest
from fork_server import run_forked
from torch.utils import backend_registration
from workspace import ROOT, write_corpus

TRAIN, TEST = 64, 30
FUSED = ["bert_fused-p1.0", "bert_fused-p0.5", "bert_fused-p0"]
CACHED = ["bert_fused-cache-p1.0", "bert_fused-cache-p0.5", "bert_fused-cache-p0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmark")
    write_corpus(path, train=TRAIN, test=TEST)
    return path


def run(*args, ok=True, **variables):
    done = run_forked(ROOT / "benchmarks" / "benchmark.py", *args, **variables)
    assert not ok or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


SINGLE = ["transformer", "bert_fused", "bert_fused-cache"]
RNN = ["lstm", "gru_bahdanau", "gru_dot", "gru_dot-entmax15"]
SYSTEMS = {
    "train": ["transformer", *FUSED, *CACHED],
    "decode": [*SINGLE, *(f"{name}-bf16" for name in SINGLE)],
    "rnn": RNN,
}
SIZES = {
    "train": "--sizes tiny --batches 1 --warmup 1",
    "decode": "--sizes tiny --sentences 9 --batch-sizes 1,4 --max-len-b 12",
    "rnn": f"--batches 1 --sentences 5 --max-len-b 6 --warmup 0 --maps entmax15 --systems {' '.join(RNN)}",
}


@pytest.mark.parametrize("command", SYSTEMS)
def test_each_system_is_measured_in_each_round(command, data, bert_dir, tmp_path):
    model = [] if command == "rnn" else ["--bert-model", bert_dir]
    how = [*model, *SIZES[command].split(), "--rounds", 2, "--json", tmp_path / "figures.json"]
    run(command, *how, DATA=str(data))
    results = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["results"]
    assert len(results) == (1 if command == "train" else 2)
    for result in results:
        assert list(result["systems"]) == SYSTEMS[command]
        for system in result["systems"].values():
            for values in system["metrics"].values():
                assert len(values["rounds"]) == 2
                assert 0 < values["min"] <= values["median"] <= values["max"] < math.inf


@pytest.mark.skipif(not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"), reason="torch < 2.10")
def test_launches_needs_no_data(tmp_path):
    done = run("launches", "--lines", "--json", tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert len(figures) == 6
    for name, row in figures.items():
        assert row["ratio"] == row["ours"] / row["fairseq"] > 0
        assert row["ours"] == pytest.approx(sum(row["lines"]["ours"].values()))
        assert f"| {name} | {row['ours']:,.0f} |" in done.stdout
    backward = figures["training step, cached, drop-net 0 / transformer"]["lines"]["ours"]
    assert any(line.startswith("native_layer_norm_backward bert_fused_plugin/") for line in backward)
    assert any(
        line.startswith("_foreach_norm fairseq_compat/updates.py:")
        for line in figures[list(figures)[-1]]["lines"]["ours"]
    )


def test_what_is_missing_is_named():
    done = run("train", ok=False)
    assert done.returncode != 0
    assert "--data DIR, or the environment variable DATA, and --bert-model are required" in done.stderr
    assert "Traceback" not in done.stderr


# --- benchmarks/ambiguous_words.py, on a made-up language with one ambiguous word


def test_the_choice_between_two_translations_is_counted(tmp_path):
    common = [(f"{a}{b}word", f"{a}{b}wort") for a in "abcdefghij" for b in "abcdefghij"]
    pairs = [(f"{a} {a}", f"{b} {b}") for a, b in common for _ in range(30)]  # the frequent words
    pairs += [("bank money", "kreditinstitut geld")] * 15 + [("bank river", "flussufer strom")] * 15
    pairs += [("money", "geld"), ("river", "strom")] * 40
    files = {
        "train.en": [a for a, _ in pairs],
        "train.de": [b for _, b in pairs],
        "test.en": ["bank money", "bank river", "bank", "river"],
        "test.de": ["Kreditinstitute", "flussufer", "kreditinstitut flussufer", "strom"],  # the third decides nothing
        "baseline.de": ["flussufer geld", "flussufer", "flussufer", "strom"],
        "system.de": ["kreditinstitut", "flussufern", "flussufer", "strom"],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    script = ROOT / "benchmarks" / "ambiguous_words.py"
    done = subprocess.run([sys.executable, script, *files], cwd=tmp_path, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    assert figures["words"] == {"bank": ["flus", "kred"]}
    assert figures["places"] == 2
    assert figures["accuracy"] == {"baseline": 0.5, "system": 1.0}
    assert figures["p"] == 1  # one place more is no evidence
