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


@pytest.fixture
def measure(data, bert_dir, tmp_path):
    """Run a subcommand for two rounds; return its JSON and its standard output."""

    def run_it(command, *args, timeout=250):
        file = tmp_path / "figures.json"
        model = [] if command == "rnn" else ["--bert-model", bert_dir]
        done = run(command, *model, "--rounds", 2, "--json", file, *args, DATA=str(data), timeout=timeout)
        return json.loads(file.read_text(encoding="utf-8")), done.stdout

    return run_it


def check_metrics(result, rounds=2):
    """Every metric has one finite positive value a round, its median between its extremes."""
    for system in result["systems"].values():
        metrics = list(system["metrics"].values())
        assert all(len(metric["rounds"]) == rounds for metric in metrics)
        for values in [*metrics, system["ratio"]]:
            assert 0 < values["min"] <= values["median"] <= values["max"] < math.inf
    first = next(iter(result["systems"].values()))
    assert first["ratio"] == {"median": 1, "min": 1, "max": 1}


def target_words(data):
    lines = (data / "train.de").read_text(encoding="utf-8").splitlines()
    return sum(len(line.split()) + 1 for line in lines)  # and eos


def test_train(measure, data):
    figures, table = measure("train", "--sizes", "tiny", "--batches", 1, "--warmup", 1)
    [result] = figures["results"]
    assert list(result["systems"]) == ["transformer", *FUSED, *CACHED]
    check_metrics(result)
    parameters, losses = {}, {}
    for name, system in result["systems"].items():
        # the one batch is the whole training set
        assert system["work"] == {"step": 1, "sentences": TRAIN, "target words": target_words(data)}
        facts = system["facts"]
        assert facts["updates"] == 3
        assert math.isfinite(facts["last loss"])
        assert 0 < facts["last loss"] < 10
        parameters[name], losses[name] = facts["trained parameters"], facts["last loss"]
        assert 0 < facts["first pass: ms/step"] < math.inf
        assert 4e-6 * facts["trained parameters"] < facts["checkpoint MB"] < 8e-6 * facts["trained parameters"]
        [seconds, words] = [system["metrics"][key]["rounds"] for key in ("seconds", "target words/s")]
        assert words == pytest.approx([target_words(data) / value for value in seconds])
    assert parameters["transformer"] < parameters["bert_fused-p1.0"] == parameters["bert_fused-cache-p0"]
    for own, cached in zip(FUSED, CACHED):  # the same steps: the states are rounded to half precision
        assert losses[cached] == pytest.approx(losses[own], abs=0.004)
    assert len({losses[name] for name in ["transformer", *FUSED]}) == 4
    for key in ("command", "seed", "device", "threads", "python", "torch", "fairseq", "transformers"):
        assert figures[key], key
    assert "load average at start and end" in figures
    assert figures["command"].startswith("benchmark.py train --bert-model ")
    assert (
        "| system | ms/step | target words/s | seconds / transformer | first pass: ms/step | trained parameters |"
        in table
    )
    assert table.count("\n| bert_fused-") == 6


def test_decode(measure):
    figures, _ = measure(
        "decode", "--sizes", "tiny", "--sentences", 9, "--batch-sizes", "1,4", "--max-len-b", 12, "--rounds", 1
    )
    assert len(figures["results"]) == 2
    for result in figures["results"]:
        single = ["transformer", "bert_fused", "bert_fused-cache"]
        assert list(result["systems"]) == [*single, *(f"{name}-bf16" for name in single)]
        check_metrics(result, rounds=1)
        assert "12 symbols written" in result["title"]
        for system in result["systems"].values():
            assert system["work"] == {"sentences": 9, "tokens": 9 * 13}
            assert system["facts"]["first pass: sentences/s"] > 0


def test_rnn(measure, data):
    systems = ["lstm", "gru_bahdanau", "gru_dot", "gru_dot-entmax15"]
    sizes = ["--batches", 1, "--sentences", 5, "--max-len-b", 6, "--warmup", 0, "--rounds", 1]
    figures, _ = measure("rnn", *sizes, "--maps", "entmax15", "--systems", *systems)
    training, decoding = figures["results"]
    for result in figures["results"]:
        assert list(result["systems"]) == systems
        check_metrics(result, rounds=1)
    for system in training["systems"].values():
        assert system["work"]["target words"] == target_words(data)
        assert system["facts"]["updates"] == 1
    assert all(system["work"] == {"sentences": 5, "tokens": 35} for system in decoding["systems"].values())


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
