"""Training that is killed at any moment goes on, and ends with the parameters of one that was not."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import ROOT, TINY
from fairseq import file_io
from ranks import parameters


class Training:
    """A training with drop-net, dropout, a cache, a warm start and two workers, in a session of its own."""

    def __init__(self, workspace, folder: Path) -> None:
        self.folder, self.workspace = folder, workspace
        folder.mkdir()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start or resume it; return when it has begun to print, which is after all imports."""
        log = self.folder / "log"
        before = log.stat().st_size if log.exists() else 0
        command = [
            Path(sys.executable).with_name("fairseq-train"), self.workspace.data, "--user-dir",
            ROOT / "bert_fused_plugin", "--task", "bert_fused_translation", "--arch", "bert_fused", *TINY,
            "--bert-model", self.workspace.bert_dir, "--bert-drop-net", "0.7", "--dropout", "0.2",
            "--bert-cache", self.folder / "cache", "--bert-warm-start", self.workspace.checkpoint,
            "--criterion", "bert_fused_label_smoothed_cross_entropy", "--optimizer", "adam", "--lr", "0.01",
            "--max-tokens", "120", "--max-epoch", "3", "--num-workers", "2", "--save-interval-updates", "4",
            "--keep-interval-updates", "1", "--no-epoch-checkpoints", "--save-dir", self.folder / "save", "--cpu",
        ]  # fmt: skip
        env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1"}
        with log.open("ab") as output:
            process = subprocess.Popen(
                list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )
        while process.poll() is None and log.stat().st_size == before:
            time.sleep(0.02)
        return process

    def finished(self, process, seconds: float) -> bool:
        """Give it some *seconds*; kill it, and its workers, if it then still runs."""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
        assert process.returncode == 0, (self.folder / "log").read_text(encoding="utf-8")[-3000:]
        return True

    def end(self):
        """Its last checkpoint: parameters and the optimizer's state."""
        state = torch.load(self.folder / "save" / "checkpoint_last.pt", weights_only=False)
        assert state["optimizer_history"][-1]["num_updates"] == 42
        return parameters(self.folder / "save" / "checkpoint_last.pt"), state["last_optimizer_state"]


@pytest.mark.timeout(3000)
def test_killed_at_any_moment_training_ends_as_if_unbroken(workspace, tmp_path, soak):
    rng = random.Random(7)
    unbroken = Training(workspace, tmp_path / "unbroken")
    process, started = unbroken.start(), time.monotonic()
    assert unbroken.finished(process, 200)
    seconds = time.monotonic() - started
    kills, rounds, wanted = 0, 0, soak.amount(2, 50)
    while kills < wanted:
        broken = Training(workspace, tmp_path / "broken")
        while not broken.finished(broken.start(), rng.uniform(0, seconds)):
            kills += 1
        torch.testing.assert_close(broken.end(), unbroken.end(), atol=0, rtol=0)
        shutil.rmtree(broken.folder)
        rounds += 1
    soak.figure(f"{kills} kills in {rounds} trainings: parameters and optimizer state equal, bit for bit")


def test_a_copy_of_a_checkpoint_is_never_seen_half(tmp_path, monkeypatch):
    """Of fairseq's own architectures too: checkpoint_last.pt is a copy, which was cut when copying failed."""
    old, new = tmp_path / "checkpoint_1_4.pt", tmp_path / "checkpoint_last.pt"
    old.write_bytes(b"new" * 1000)
    new.write_bytes(b"old")

    def torn(source, target):
        Path(target).write_bytes(Path(source).read_bytes()[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(file_io.shutil, "copyfile", torn)
        with pytest.raises(OSError, match="No space left"):
            file_io.PathManager.copy(str(old), str(new), overwrite=True)
    assert new.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint_1_4.pt", "checkpoint_last.pt"]
    assert file_io.PathManager.copy(str(old), str(new), overwrite=True)
    assert new.read_bytes() == old.read_bytes()
