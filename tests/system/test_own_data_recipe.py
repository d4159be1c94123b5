"""examples/own_data/run.sh: what is wrong is said before anything runs; raw text becomes a report in one command."""

import json
import os
import random
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT
from helpers import WORDS

SCRIPT = ROOT / "examples" / "own_data" / "run.sh"


def run(tmp_path, *steps, **variables):
    env = {name: value for name, value in os.environ.items() if name not in ("SRC", "TGT", "DATA", "OUT", "BERT")}
    env.update(VENV=sys.prefix, OMP_NUM_THREADS="1", **{name: str(value) for name, value in variables.items()})
    return subprocess.run([SCRIPT, *steps], capture_output=True, text=True, cwd=tmp_path, env=env)


def test_help_lists_every_setting_with_its_default(tmp_path):
    done = run(tmp_path, "--help")
    assert done.returncode == 0
    script = SCRIPT.read_text(encoding="utf-8") + "".join(
        path.read_text(encoding="utf-8") for path in SCRIPT.parents[1].glob("recipe*.sh")
    )
    settings = set(re.findall(r"\$\{([A-Z_]+):?-", script)) - {"VENV"}
    assert settings >= {"SRC", "OUT", "BERT", "UPDATES", "MORE", "WARMUP", "LR", "SEED", "TRAIN_FLAGS", "SYMBOLS"}
    for setting in settings:
        assert f"{setting}=" in done.stdout, setting


GIVEN = {"SRC": "en", "TGT": "fr", "DATA": "."}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SRC": ""}, "SRC= is required"),
        ({"TGT": "en"}, "SRC and TGT must differ, got en twice"),
        ({"DATA": "nowhere"}, "DATA=nowhere is no directory"),
        ({"SUBWORDS": "bpe"}, "SUBWORDS=bpe must be sentencepiece or subword-nmt"),
        ({"SYMBOLS": "8k"}, "SYMBOLS=8k must be a whole number"),
        ({"SIZE": "huge"}, "SIZE=huge must be auto, tiny, iwslt or base"),
        ({"CACHE_GB": "all"}, "CACHE_GB=all must be a number"),
        ({"SRC": "e n"}, "must be names of languages"),
        ({"SRC": "pt-BR"}, "must be names of languages, such as en and pt_BR"),
        ({"UPDATES": "0"}, "UPDATES=0 must be at least 1"),
        ({"OUT": "a:b"}, "OUT=a:b must have no colon"),
        ({"OUT": "a,b"}, "OUT=a,b must have no colon and no comma"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(tmp_path, variables, message):
    done = run(tmp_path, **{**GIVEN, **variables})
    assert done.returncode == 2
    assert done.stderr.startswith("own_data/run.sh: error: ")
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def write_text(folder):
    """Write pairs of random words, in order and reversed."""
    folder.mkdir()
    rng = random.Random(1)
    lines = [[rng.choice(WORDS[:15]) for _ in range(rng.randint(3, 8))] for _ in range(600)]
    for lang, step in (("en", 1), ("de", -1)):
        text = "".join(f"{' '.join(words[::step])}{'.' * (lang == 'de')}\n" for words in lines)
        (folder / f"train.{lang}").write_text(text, encoding="utf-8")


def test_a_fairseq_preprocess_that_fails_ends_the_recipe(tmp_path):
    """It must not be taken for done the next time, either."""
    stub = tmp_path / "fairseq-preprocess"
    stub.write_text('#!/bin/sh\nmkdir -p "$OUT/data-bin.new"\necho no space\nexit 1\n', encoding="utf-8")
    stub.chmod(0o755)
    (tmp_path / "text").mkdir()
    for lang in ("en", "fr"):
        (tmp_path / "text" / f"valid.{lang}").touch()
    call = f'source "{SCRIPT.parents[1]}/recipe.sh"; python() {{ :; }}; PATH={tmp_path}:$PATH; prepare_raw data'
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail; source_lang=en target_lang=fr; {call}", "run.sh"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "OUT": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "no space" in done.stderr
    assert "error: fairseq-preprocess failed" in done.stderr
    assert not (tmp_path / "data-bin").exists()


def test_english_on_a_gpu_reads_bert_of_the_hub(tmp_path, bert_dir, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    hub = tmp_path / "hub" / "models--bert-base-cased"
    shutil.copytree(bert_dir, hub / "snapshots" / "1")
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("1")
    (hub / "snapshots" / "1" / "modules.json").write_text("[]")  # so it is a sentence encoder
    write_text(tmp_path / "data")
    given = {"SRC": "en", "TGT": "de", "DATA": tmp_path / "data", "SYMBOLS": 60, "HF_HOME": tmp_path}
    given.update(HF_HUB_OFFLINE=1, BERT_FLAGS="--bert-cache-dtype bf16")
    # a machine with a GPU, which CUDA_VISIBLE_DEVICES= hides
    asks = '[[ $* = *cuda.is_available* ]] && { [ -z "${CUDA_VISIBLE_DEVICES+hidden}" ]; return; }'
    given["BASH_FUNC_python%%"] = f'() {{ {asks}; command python "$@"; }}'
    done = run(tmp_path, "prepare", **given)
    assert "BERT is bert-base-cased (the default for English on a GPU; BERT= takes another one: " in done.stdout, (
        done.stderr
    )
    settings = {
        flags: f"GPU: .*: {f'--fp16 {flags}'.strip()}" for flags in ("", "--update-freq 2", "--fp16-init-scale 4")
    }
    settings.update({"--bf16": "GPU: .*: --bf16", "--cpu": "CPU: .*: --cpu"})
    for flags, said in settings.items():
        done = run(tmp_path, "compare", **given, TRAIN_FLAGS=flags)  # a later call knows the choice
        assert re.search(rf"own_data: \d+ pairs on a {said}\n", done.stdout), done.stderr
    assert "; --bert-layer 1 --bert-cache-dtype bf16 --bert-identity-start;" in done.stdout
    assert "run the step transformer first" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_raw_text_becomes_a_report_and_nothing_is_done_twice(tmp_path, bert_dir):
    write_text(tmp_path / "data")
    given = {"SRC": "en", "TGT": "de", "DATA": tmp_path / "data", "OUT": tmp_path / "out", "BERT": bert_dir}
    given.update(SYMBOLS=60, UPDATES=4, MORE=2, TRAIN_FLAGS="--cpu")
    done = run(tmp_path, **given)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "own_data: 30 pairs of train are put aside for valid (seed 1)" in done.stdout
    assert re.search(r"\nexpected time, at most: \d+ (seconds|minutes) \(transformer ", done.stdout)
    assert "own_data: transformer: 4 updates (log: " in done.stdout
    assert "Embedding(" not in done.stdout  # fairseq prints the model
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in report["runs"]] == ["continued", "transformer", "bert_fused"]
    assert (tmp_path / "out" / "bert-cache").exists()
    again = run(tmp_path, "prepare", "estimate", "transformer", "continued", "bert_fused", **given, CACHE_GB=0)
    assert again.returncode == 0
    assert "BERT's states would take more than CACHE_GB=0, so BERT runs in every step" in again.stdout
    assert [line for line in again.stdout.splitlines() if line.endswith("done before")] == [
        f"own_data: {step}: done before" for step in ("prepare", "transformer", "continued", "bert_fused")
    ]
    other = run(tmp_path, "prepare", **{**given, "SYMBOLS": 50})
    assert other.returncode == 2
    assert "(before: en-de --subwords sentencepiece --seed 1 --symbols 60; now: en-de --subwords" in other.stderr
