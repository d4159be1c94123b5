"""Training and translating with BERT's states from the disk."""

import re
from unittest.mock import patch

import pytest
import torch
from conftest import hypotheses

from bert_fused_plugin.commands.cache import main

pytestmark = pytest.mark.system


def losses(done):
    """Return the losses of all updates and of validation."""
    return [
        float(value)
        for value in re.findall(r"\| (?:loss|nll_loss)[ =]([\d.]+)|\bloss=([\d.]+)", done.stdout)
        for value in value
        if value
    ]


@pytest.fixture(scope="module")
def options():
    return ["--bert-drop-net", "0.5", "--dropout", "0.1", "--log-interval", "1"]


def test_training_with_and_without_the_cache_is_the_same(workspace, tmp_path, options):
    without = workspace.train(*options, save_dir=tmp_path / "without")
    cache = ["--bert-cache", tmp_path / "cache", "--bert-cache-dtype", "fp32"]
    first = workspace.train(*options, *cache, save_dir=tmp_path / "first")
    assert re.search(r"BERT cache \S+: [\d,]+ new sentences of [\d,]+ word pieces, [\d.,]+ MiB to write", first.stdout)
    second = workspace.train(*options, *cache, "--num-workers", "2", save_dir=tmp_path / "second")
    assert "new sentences" not in second.stdout
    assert len(losses(without)) > 20
    # the log shows three decimals
    assert losses(first) == pytest.approx(losses(without), abs=0.0015)
    states = [torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=False) for name in ("without", "first")]
    assert [state["extra_state"]["val_loss"] for state in states[:1]] == pytest.approx(
        [state["extra_state"]["val_loss"] for state in states[1:]], abs=1e-6
    )
    assert losses(second) == losses(first)


def test_the_training_finds_the_cache_complete_that_the_command_has_built(workspace, tmp_path):
    cache = ["--bert-cache", tmp_path / "cache"]
    with patch.object(workspace, "run") as run:
        workspace.train(*cache, save_dir=tmp_path / "save")
    _, *words = run.call_args.args
    main(["build", *map(str, words)])
    before = sorted((tmp_path / "cache").rglob("*.safetensors"))
    done = workspace.train(*cache, save_dir=tmp_path / "save")
    assert before
    assert "new sentences" not in done.stdout + done.stderr
    assert sorted((tmp_path / "cache").rglob("*.safetensors")) == before


def test_beyond_its_limit_bert_runs_in_every_step(workspace, tmp_path):
    cache = ["--bert-cache", tmp_path / "cache", "--bert-cache-limit", "0.00001"]
    done = workspace.train(*cache, "--max-epoch", "1", save_dir=tmp_path / "save")
    assert re.search(r"valid: BERT runs in every step for \d+ of 20 sentences|train: BERT runs in every", done.stdout)
    assert sum(file.stat().st_size for file in (tmp_path / "cache").rglob("*.safetensors")) < 20_000
    refused = workspace.train("--bert-cache-limit", "0", save_dir=tmp_path / "save", ok=False)
    assert "--bert-cache-limit must be a number of GB above 0, with --bert-cache, got 0.0 without" in refused.stderr
    unset = workspace.train("--bert-cache", "", "--bert-cache-limit", "inf", save_dir=tmp_path / "save", ok=False)
    assert "--bert-cache must not be empty" in unset.stderr
    assert "with --bert-cache, got inf; leave it out" in unset.stderr


def test_translations_from_the_cache_are_the_same(workspace, tmp_path):
    without = hypotheses(workspace.generate().stdout)
    cached = hypotheses(workspace.generate("--bert-cache", tmp_path, "--bert-cache-dtype", "fp32").stdout)
    assert {n: tokens for n, (_, tokens) in cached.items()} == {n: tokens for n, (_, tokens) in without.items()}
    assert [cached[n][0] for n in without] == pytest.approx([score for score, _ in without.values()], abs=1e-4)


def test_a_cache_that_cannot_be_used_is_an_error_at_set_up(workspace, tmp_path):
    (tmp_path / "file").write_text("")
    done = workspace.train("--bert-cache", tmp_path / "file", save_dir=tmp_path / "save", ok=False)
    assert "Traceback" not in done.stdout + done.stderr
    assert re.search(r"bert_fused_plugin: error: --bert-cache \S+file cannot be used .*leave the flag out", done.stderr)
