"""Consistency training through fairseq-train."""

import re
import shutil

import torch
from ranks import parameters


def test_it_logs_the_divergence_and_a_training_goes_on_in_mid_epoch_as_if_unbroken(workspace, tmp_path):
    flags = ["--consistency", "simcut", "--bert-cache", tmp_path / "cache", "--dropout", "0.2", "--update-freq", "2"]
    flags += ["--max-tokens", "60", "--no-epoch-checkpoints", "--save-interval-updates", "3", "--max-update", "7"]
    done = workspace.train(*flags, save_dir=tmp_path / "whole")
    log = done.stdout + done.stderr
    assert re.search(r"train \| epoch 001 \| .* \| divergence \d\.\d+ \|", log)
    assert "divergence" not in re.search(r"valid on 'valid' subset .*", log)[0]
    (tmp_path / "parts").mkdir()
    shutil.copy(tmp_path / "whole" / "checkpoint_1_3.pt", tmp_path / "parts" / "checkpoint_last.pt")
    done = workspace.train(*flags, save_dir=tmp_path / "parts")
    assert "(epoch 1 @ 3 updates)" in done.stdout + done.stderr
    whole, parts = (parameters(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "parts"))
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
