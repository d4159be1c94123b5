"""Trainings of several processes, whose result a training of one process must have."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch

CPU_DDP = [sys.executable, str(Path(__file__).with_name("cpu_ddp.py"))]
FAIRSEQ_TRAIN = [str(Path(sys.executable).with_name("fairseq-train"))]
DRAWS = "--dropout 0.2 --bert-drop-net 1.0 --adam-eps 1e-4 --max-tokens 60 --max-epoch 1".split()


def command(workspace, save_dir, *options, train=FAIRSEQ_TRAIN):
    """The command line of a training that draws, for dropout and drop-net."""
    flags = [*DRAWS, "--no-epoch-checkpoints", "--disable-validation", *options]
    return [*train, *workspace.training(*flags, save_dir=save_dir)]


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def start(arguments, log: Path) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with open(log, "w", encoding="utf-8") as output:
        return subprocess.Popen(list(map(str, arguments)), stdout=output, stderr=subprocess.STDOUT, env=environment)


def assert_all_end(processes, logs: Path):
    """Wait for the *processes* of a training; no process is left when one of them fails."""
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.terminate()  # not killed: torchrun then ends its ranks
    assert not any(codes), "".join(log.read_text()[-2000:] for log in sorted(logs.glob("*.log")))


def parameters(checkpoint):
    """Return the parameters; fairseq's position embeddings save a number of uninitialised memory beside them."""
    state = torch.load(checkpoint, weights_only=False)["model"]
    return {key: value for key, value in state.items() if not key.endswith("._float_tensor")}


def assert_as_alone(save_dir, expected):
    torch.testing.assert_close(parameters(save_dir / "checkpoint_last.pt"), expected, atol=1e-4, rtol=0)
