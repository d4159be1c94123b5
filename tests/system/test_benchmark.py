"""scripts/benchmark.py: it measures real work and reports all of it.  Speed itself is never asserted."""

import argparse
import importlib
import json
import logging
import math
import shlex
import sys

import pytest
from conftest import ROOT, write_corpus
from fork_server import FORK_SERVER

from bert_fused_plugin.errors import BertFusedError

pytestmark = pytest.mark.system

TRAIN, TEST = 64, 30
FUSED = ["bert_fused-p1.0", "bert_fused-p0.5", "bert_fused-p0"]
CACHED = ["bert_fused-cache-p1.0", "bert_fused-cache-p0.5", "bert_fused-cache-p0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmark")
    write_corpus(path, train=TRAIN, test=TEST)
    return path


def run(*args, ok=True, **variables):
    done = FORK_SERVER.run(ROOT / "scripts" / "benchmark.py", *args, **variables)
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
        assert 4e-6 * facts["trained parameters"] < facts["checkpoint MB"] < 8e-6 * facts["trained parameters"]
        [seconds, words] = [system["metrics"][key]["rounds"] for key in ("seconds", "target words/s")]
        assert words == pytest.approx([target_words(data) / value for value in seconds])
    assert parameters["transformer"] < parameters["bert_fused-p1.0"] == parameters["bert_fused-cache-p0"]
    for own, cached in zip(FUSED, CACHED):  # the same steps: the states are rounded to half precision
        assert losses[cached] == pytest.approx(losses[own], abs=0.004)
    assert len({losses[name] for name in ["transformer", *FUSED]}) == 4
    for key in ("command", "seed", "device", "threads", "processor", "python", "torch", "fairseq", "transformers"):
        assert figures[key], key
    assert "load average at start" in figures
    assert figures["command"].startswith("benchmark.py train --bert-model ")
    assert "| system | ms/step | target words/s | seconds / transformer | trained parameters |" in table
    assert table.count("\n| bert_fused-") == 6


def test_decode(measure):
    figures, _ = measure("decode", "--sizes", "tiny", "--sentences", 9, "--batch-sizes", "1,4", "--lengths", "0,12")
    assert len(figures["results"]) == 4
    for result in figures["results"]:
        single = ["transformer", "bert_fused", "bert_fused-cache"]
        assert list(result["systems"]) == [*single, *(f"{name}-bf16" for name in single)]
        check_metrics(result)
    for result in figures["results"][2:]:
        assert "12 source symbols, 12 symbols written" in result["title"]
        for system in result["systems"].values():
            assert system["work"] == {"sentences": 9, "tokens": 9 * 13}
    tokens = {system["work"]["tokens"] for result in figures["results"][:2] for system in result["systems"].values()}
    assert len(tokens) == 1


def test_rnn(measure, data):
    systems = ["lstm", "gru_bahdanau", "gru_dot", "gru_dot-entmax15"]
    sizes = ["--batches", 1, "--sentences", 5, "--max-len-b", 6, "--warmup", 0, "--rounds", 1]
    figures, _ = measure("rnn", *sizes, "--maps", "entmax15", "--systems", *systems)
    training, memory, decoding = figures["results"]
    for result in figures["results"]:
        assert list(result["systems"]) == systems
        check_metrics(result, rounds=1)
    assert all(system["metrics"]["difference MiB"]["median"] > 0 for system in memory["systems"].values())
    for system in training["systems"].values():
        assert system["work"]["target words"] == target_words(data)
        assert system["facts"]["updates"] == 1
    assert all(system["work"] == {"sentences": 5, "tokens": 35} for system in decoding["systems"].values())


def test_cache(measure):
    figures, _ = measure("cache", "--sentences", 20, "--warmup", 0)
    [result] = figures["results"]
    assert list(result["systems"]) == ["forward", "build", "open", "read"]
    check_metrics(result)
    work = {name: system["work"] for name, system in result["systems"].items()}
    assert work["forward"] == work["build"] == work["read"]
    assert work["open"]["sentences"] == work["read"]["sentences"] == 20
    # fp16 states of width 12
    assert result["systems"]["build"]["facts"]["bytes/sentence"] > 2 * 12 * work["read"]["word pieces"] / 20


def test_memory(measure):
    systems = ["transformer", "bert_fused-cache-p1.0"]
    figures, _ = measure("memory", "--sizes", "tiny", "--batches", 1, "--rounds", 1, "--systems", *systems)
    [result] = figures["results"]
    assert list(result["systems"]) == systems
    check_metrics(result, rounds=1)
    for system in result["systems"].values():
        before, peak, difference = (
            system["metrics"][f"{key} MiB"]["rounds"] for key in ("before", "peak", "difference")
        )
        assert difference == pytest.approx([b - a for a, b in zip(before, peak)])
        # gradients and the two moments of Adam: 3 x 4 bytes for each of some 1.3 million parameters
        assert min(difference) > 10


STARTS = ["transformer", "transformer-user-dir", "bert_fused", "transformer-hub", "bert_fused-hub"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("systems", [STARTS[:2], pytest.param(STARTS, marks=pytest.mark.slow)], ids=["stock", "all"])
def test_start(measure, systems):
    chosen = [] if systems == STARTS else ["--systems", *systems]
    figures, table = measure("start", "--warmup", 0, "--rounds", 1, "--threads", 1, *chosen, timeout=550)
    [result] = figures["results"]
    assert list(result["systems"]) == systems
    check_metrics(result, rounds=1)
    assert "| system | seconds | CPU seconds | CPU seconds / transformer |" in table
    assert table.count("\n| transformer") + table.count("\n| bert_fused") == len(systems)
    for system in result["systems"].values():
        assert set(system["metrics"]) == {"seconds", "CPU seconds"}
        assert system["metrics"]["CPU seconds"]["median"] > 0.5  # the import of torch alone takes longer
        assert set(system["work"]) == {"sentences", "symbols"}
        assert system["work"]["sentences"] == 1
    # the same checkpoint writes the same translation in all ways
    for model in ("transformer", "bert_fused"):
        assert len({system["work"]["symbols"] for name, system in result["systems"].items() if model in name}) <= 1


def test_all_bad_settings_are_reported_together(tmp_path):
    done = run(
        "train", "--data", tmp_path / "nowhere", "--sizes", "huge", "--rounds", 0, "--fp16", "--device", "cuda",
        "--json", tmp_path / "no" / "figures.json", ok=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert [line.split("error: ")[1] for line in done.stderr.splitlines() if "error: " in line] == [
        f"--data {tmp_path}/nowhere: no such directory",
        "--sizes must be one of tiny, iwslt, base, got 'huge'",
        "--rounds must be at least 1, got 0",
        "--device cuda: torch sees no GPU; leave it out to measure on the CPU",
        f"--json {tmp_path}/no/figures.json: its directory does not exist; make it first",
    ]


@pytest.fixture
def main(monkeypatch):
    """The script's main function, in this process: what is refused is refused before anything is measured."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delenv("DATA", raising=False)
    yield importlib.import_module("benchmark").main
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ("train", ["--data DIR, or the environment variable DATA, is required", "--bert-model is required here"]),
        ("rnn --data {data} --target-lang fr", ["--data {data} has no train.fr, test.fr; --source-lang and"]),
        ("train --data {data} --systems transformer lstm", ["--systems must be among transformer, bert_fused-p1.0, "]),
        ("rnn --data {data} --lengths 9,2000", ["--lengths must be in [0, 1022], got 2000"]),
        ("train --data {data} --systems transformer --batches 9", ["--batches 9: the training set gives 1 batches"]),
        ("rnn --data {data} --sentences 31 --batches 1", ["--sentences 31: {data} has "]),
        ("rnn --data {uneven}", ["--data {uneven}: train has 5 source and 64 target lines; both sides need"]),
        ("rnn --data {data} --max-tokens 1", ["--max-tokens 1: all train sentences are longer; raise it"]),
        ("cache --data {data} --bert-model ./nowhere", ["--bert-model ./nowhere: neither the data directory"]),
        ("memory --data {data} --bert-model x --fp16", ["--fp16 is for --device cuda; leave it out"]),
        ("start --data {data}", ["--bert-model is required here"]),
        ("start --data {data} --systems lstm", ["--systems must be among transformer, transformer-user-dir, "]),
    ],
)
def test_bad_settings(main, data, tmp_path, options, messages):
    write_corpus(tmp_path, train=5, test=5)
    (tmp_path / "train.de").write_bytes((data / "train.de").read_bytes())
    names = {"data": data, "uneven": tmp_path}
    with pytest.raises(BertFusedError) as caught:
        main(options.format(**names).split())
    assert len(caught.value.errors) == len(messages)
    for error, message in zip(caught.value.errors, messages):
        assert error.startswith(message.format(**names))
        assert "\n" not in error


@pytest.fixture
def starts(main, data, tmp_path):
    """What starts the processes, with the corpus written and no checkpoint made."""
    benchmark_start, benchmark_data = (importlib.import_module(f"benchmark_{name}") for name in ("start", "data"))
    options = argparse.Namespace(
        data=str(data), source_lang="en", target_lang="de", max_tokens=4096, seed=1, threads=None
    )
    corpus = benchmark_data.Corpus(options, ["train"])
    corpus.write_dictionaries(tmp_path)
    return benchmark_start.Starts(corpus, options, str(tmp_path))


FAILS = "raise SystemExit('\\n'.join(f'line {number} of the child' for number in range(1, 31)))"


@pytest.mark.parametrize(
    ("program", "first", "last"),
    [
        (FAILS, "ended with the exit status 1; correct", "line 30 of the child"),
        ("print('a warning')", "translated nothing; correct", "a warning"),
        ("", "translated nothing; correct", "(nothing)"),
    ],
    ids=["failure", "no translation", "silence"],
)
def test_a_start_that_fails_shows_the_last_lines(starts, monkeypatch, program, first, last):
    command = [sys.executable, "-c", program]
    monkeypatch.setattr(starts, "_interactive", lambda system: command)
    system = importlib.import_module("benchmark_start").start_systems("unread")["transformer"]
    with pytest.raises(BertFusedError) as caught:
        starts.start(system)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"a command that the benchmark runs {first}")
    assert lines[1] == f"  the command: {shlex.join(command)}".splitlines()[0]
    assert lines[-1].strip() == last
    assert sum(line.strip().startswith("line ") for line in lines) == (20 if program == FAILS else 0)


def test_a_start_whose_command_is_not_installed(starts, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    system = importlib.import_module("benchmark_start").start_systems("unread")["transformer"]
    with pytest.raises(BertFusedError, match=f"^{tmp_path}/fairseq-train cannot be started .*; run the benchmark with"):
        starts.prepare(system)
