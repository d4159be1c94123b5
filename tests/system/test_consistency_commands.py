"""Consistency training through fairseq-train."""

import re

import pytest
import torch
from ranks import parameters


@pytest.mark.parametrize(
    "flags",
    [["--consistency", "simcut"], ["--consistency", "r-drop", "--bert-cache", "cache"]],
    ids=["simcut", "r-drop, cached"],
)
def test_it_logs_the_divergence_and_a_training_goes_on_in_mid_epoch_as_if_unbroken(workspace, tmp_path, flags):
    flags = [str(tmp_path / flag) if flag == "cache" else flag for flag in flags]
    flags += ["--dropout", "0.2", "--update-freq", "2", "--max-tokens", "60", "--no-epoch-checkpoints"]
    done = workspace.train(*flags, "--max-update", "7", save_dir=tmp_path / "whole")
    log = done.stdout + done.stderr
    assert re.search(r"train \| epoch 001 \| .* \| divergence \d\.\d+ \|", log)
    assert "divergence" not in re.search(r"valid on 'valid' subset .*", log)[0]
    for updates in ("3", "7"):
        workspace.train(*flags, "--max-update", updates, save_dir=tmp_path / "parts")
    whole, parts = (parameters(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "parts"))
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
