"""Training and translating with BERT's states from the disk."""

import re

import pytest
import torch


def losses(done):
    """Return the losses of all updates and of validation."""
    return [float(value) for value in re.findall(r"\b(?:nll_)?loss[ =]([\d.]+)", done.stdout)]


def test_training_with_and_without_the_cache_is_the_same(workspace, tmp_path):
    options = ["--bert-drop-net", "0.5", "--dropout", "0.1", "--log-interval", "1"]
    without = workspace.train(*options, save_dir=tmp_path / "without")
    cache = ["--bert-cache", tmp_path / "cache", "--bert-cache-dtype", "fp32"]
    first = workspace.train(*options, *cache, save_dir=tmp_path / "first")
    wanted = r"BERT cache \S+: 1 of 1 blocks are missing, [\d,]+ word pieces; [\d.,]+ MiB to write, [\d.,]+ GiB free"
    assert len(re.findall(wanted, first.stdout)) == 2  # for train and for valid
    second = workspace.train(*options, *cache, "--num-workers", "2", save_dir=tmp_path / "second")
    assert "are missing" not in second.stdout
    assert len(losses(without)) > 20
    # the log shows three decimals
    assert losses(first) == pytest.approx(losses(without), abs=0.0015)
    states = [torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=False) for name in ("without", "first")]
    assert [state["extra_state"]["val_loss"] for state in states[:1]] == pytest.approx(
        [state["extra_state"]["val_loss"] for state in states[1:]], abs=1e-6
    )
    assert losses(second) == losses(first)
