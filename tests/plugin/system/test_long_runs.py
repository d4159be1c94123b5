"""Long trainings: no NaN, memory that stays flat, no file left open."""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest


class Samples:
    """What a process and its log say while it trains."""

    def __init__(self, command, folder: Path) -> None:
        self.resident, self.files = [], []  # MiB, open files
        env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1"}
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, env=env)
            while process.poll() is None:
                self._sample(Path("/proc", str(process.pid)), b'"num_updates"' in log.read_bytes())
                time.sleep(0.1)
        text = log.read_text(encoding="utf-8")
        assert process.returncode == 0, text[-3000:]
        rows = [json.loads(line[line.index("{") :]) for line in text.splitlines() if "| train_inner | {" in line]
        self.losses = [float(row["loss"]) for row in rows]
        self.norms = [float(row["gnorm"]) for row in rows]
        self.updates = int(rows[-1]["num_updates"])

    def _sample(self, process: Path, is_training: bool) -> None:
        try:
            status = (process / "status").read_text()
            files = len(os.listdir(process / "fd"))
        except OSError:  # it has just ended
            return
        if is_training and "VmRSS" in status:
            self.resident.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
            self.files.append(files)


SLOW = (pytest.param(precision, marks=pytest.mark.slow) for precision in ("fp32", "memory-efficient-fp16"))
PRECISIONS = (*SLOW, "memory-efficient-bf16")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_long_training_stays_finite_and_takes_no_more_and_more(workspace, tmp_path, soak, precision):
    updates = soak.amount(120, 5000 if precision == "fp32" else 2000)
    samples = Samples(
        [
            Path(sys.executable).with_name("fairseq-train"),
            *workspace.training(
                "--bert-drop-net", "0.5", "--dropout", "0.1", "--bert-cache", tmp_path / "cache", "--lr", "0.005",
                "--clip-norm", "1", "--max-epoch", "0", "--max-update", updates, "--num-workers", "2",
                "--save-interval", "20", "--validate-interval", "20", "--keep-last-epochs", "1",
                "--log-format", "json", "--log-interval", "10", save_dir=tmp_path / "save",
            ),
            *([] if precision == "fp32" else [f"--{precision}"]),
        ],
        tmp_path,
    )  # fmt: skip
    assert samples.updates >= updates - 10
    assert all(map(math.isfinite, samples.losses))
    assert all(map(math.isfinite, samples.norms))
    assert statistics.mean(samples.losses[-5:]) < statistics.mean(samples.losses[:5]) - 0.2
    resident = samples.resident
    early, late = (
        statistics.median(part) for part in (resident[len(resident) // 4 : len(resident) // 2], resident[-10:])
    )
    assert late < 1.03 * early + 2
    # batches on their way are open files too, so the fewest count: one left open by each epoch would soon be more
    half = len(samples.files) // 2
    early_files, late_files = min(samples.files[:half]), min(samples.files[half:])
    assert late_files <= early_files + soak.amount(60, 10)
    soak.figure(
        f"{precision}: {samples.updates} updates, loss {samples.losses[0]:.2f} to {samples.losses[-1]:.2f}, no NaN; "
        f"resident {early:.0f} MiB in the second quarter, {late:.0f} at the end; "
        f"between epochs {early_files} open files in the first half, {late_files} in the second"
    )
