"""Training that is killed at any moment goes on, and ends with the parameters of one that was not."""

import math
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
from fork_server import ENVIRONMENT
from ranks import parameters


class Training:
    """A training with drop-net, dropout, a cache, a warm start and two workers, in a session of its own."""

    def __init__(self, workspace, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        folder.mkdir()
        words = workspace.training(
            "--bert-drop-net", "0.7", "--dropout", "0.2", "--bert-cache", folder / "cache",
            "--bert-warm-start", workspace.checkpoint, "--max-epoch", "3", "--num-workers", "2",
            "--save-interval-updates", "4", "--keep-interval-updates", "1", "--no-epoch-checkpoints",
            "--log-interval", "1", save_dir=folder / "save",
        )  # fmt: skip
        self.command = list(map(str, [Path(sys.executable).with_name("fairseq-train"), *words]))

    def lines(self) -> int:
        """How many lines it has printed, an update being at least one."""
        return self.log.read_bytes().count(b"\n")

    def finished(self, most_lines: float = math.inf, delay: float = 0) -> bool:
        """Start or resume it; some seconds of *delay* after *most_lines* kill it, and its workers, if it still runs."""
        with self.log.open("ab") as output:
            before = self.lines()
            process = subprocess.Popen(
                self.command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **ENVIRONMENT},
                start_new_session=True,
            )  # fmt: skip
        while process.poll() is None:
            if self.lines() - before >= most_lines:
                time.sleep(delay)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return False
            time.sleep(0.01)
        assert process.returncode == 0, self.log.read_text(encoding="utf-8")[-3000:]
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
    assert unbroken.finished()
    kills, rounds, wanted = 0, 0, soak.amount(2, 50)
    while kills < wanted:
        broken = Training(workspace, tmp_path / "broken")
        while not broken.finished(rng.uniform(0, unbroken.lines()), rng.uniform(0, 0.1)):
            kills += 1
        torch.testing.assert_close(broken.end(), unbroken.end(), atol=0, rtol=0)
        shutil.rmtree(broken.folder)
        rounds += 1
    soak.figure(f"{kills} kills in {rounds} trainings: parameters and optimizer state equal, bit for bit")
