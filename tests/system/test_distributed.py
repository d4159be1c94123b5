"""Two processes train as one does; when one of them dies, the other ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import ROOT

CPU_DDP = [sys.executable, str(Path(__file__).with_name("cpu_ddp.py"))]
FAIRSEQ_TRAIN = [str(Path(sys.executable).with_name("fairseq-train"))]
DRAWS = ["--dropout", "0.2", "--bert-drop-net", "1.0"]


def command(workspace, save_dir, *options, arch, train=FAIRSEQ_TRAIN):
    """The command line of a training that draws, for dropout and drop-net."""
    return [
        *train, workspace.data, "--user-dir", ROOT / "bert_fused_plugin", "--task", "bert_fused_translation",
        "--arch", arch, "--bert-model", workspace.bert_dir, *DRAWS, "--lr", "0.01",
        "--optimizer", "adam", "--adam-eps", "1e-4", "--criterion", "bert_fused_label_smoothed_cross_entropy",
        "--max-tokens", "60", "--max-epoch", "1", "--save-dir", save_dir,
        "--no-epoch-checkpoints", "--disable-validation", "--cpu", *options,
    ]  # fmt: skip


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def start(arguments, log: Path) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with open(log, "w", encoding="utf-8") as output:
        return subprocess.Popen(list(map(str, arguments)), stdout=output, stderr=subprocess.STDOUT, env=environment)


def start_two_ranks(arguments, log_dir: Path):
    log_dir.mkdir(exist_ok=True)
    group = ["--distributed-world-size", 2, "--distributed-backend", "gloo", "--distributed-no-spawn"]
    group += ["--distributed-init-method", f"tcp://127.0.0.1:{free_port()}", "--distributed-rank"]
    return [start([*arguments, *group, rank], log_dir / f"rank{rank}.log") for rank in range(2)]


def train_with_two_ranks(workspace, save_dir, *options, arch, train=FAIRSEQ_TRAIN):
    processes = start_two_ranks(command(workspace, save_dir, *options, arch=arch, train=train), save_dir)
    try:
        codes = [process.wait(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes == [0, 0], "".join(log.read_text()[-2000:] for log in sorted(save_dir.glob("rank*.log")))


def parameters(checkpoint):
    """Return the parameters; fairseq's position embeddings save a number of uninitialised memory beside them."""
    state = torch.load(checkpoint, weights_only=False)["model"]
    return {key: value for key, value in state.items() if not key.endswith("._float_tensor")}


def assert_as_alone(save_dir, expected):
    torch.testing.assert_close(parameters(save_dir / "checkpoint_last.pt"), expected, atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def alone(workspace, tmp_path_factory):
    """Parameters after an epoch of one process with ``--update-freq 2``, by architecture."""
    trained = {}

    def train(arch):
        if arch not in trained:
            save_dir = tmp_path_factory.mktemp(arch)
            options = ["--update-freq", "2"]
            process = start(command(workspace, save_dir, *options, arch=arch), save_dir / "log")
            assert process.wait(timeout=120) == 0, (save_dir / "log").read_text()[-3000:]
            trained[arch] = parameters(save_dir / "checkpoint_last.pt")
        return trained[arch]

    return train


@pytest.mark.parametrize("arch", ["bert_fused_tiny", "gru_bahdanau_tiny"])
def test_two_ranks_train_as_one_process_with_two_batches_an_update(workspace, alone, tmp_path, arch):
    """Dropout and drop-net are on: each rank draws what one process draws for the same batch."""
    train_with_two_ranks(workspace, tmp_path, arch=arch, train=CPU_DDP)
    assert_as_alone(tmp_path, alone(arch))


def test_when_a_rank_is_killed_the_other_ends_and_training_resumes(workspace, alone, tmp_path):
    """Both ranks share a cache of BERT's states, which they build together."""
    save_dir, arch = tmp_path / "save", "bert_fused_tiny"
    options = ["--ddp-backend", "legacy_ddp", "--num-workers", "2"]
    options += ["--bert-cache", tmp_path / "cache", "--bert-cache-dtype", "fp32"]
    endless = command(workspace, save_dir, *options, "--save-interval-updates", "4", "--max-epoch", "10000", arch=arch)
    survivor, victim = start_two_ranks(endless, save_dir)
    try:
        deadline = time.monotonic() + 120
        while not (save_dir / "checkpoint_1_8.pt").exists():
            assert time.monotonic() < deadline
            assert survivor.poll() is None, (save_dir / "rank0.log").read_text()[-3000:]
            time.sleep(0.05)
        victim.send_signal(signal.SIGKILL)
        assert survivor.wait(timeout=30) != 0
    finally:
        survivor.kill()
        victim.kill()
    assert re.search(r"Connection (closed|reset) by peer", (save_dir / "rank0.log").read_text())
    assert parameters(save_dir / "checkpoint_last.pt").keys() == alone(arch).keys()
    resumed = tmp_path / "resumed"
    train_with_two_ranks(workspace, resumed, *options, "--restore-file", save_dir / "checkpoint_1_4.pt", arch=arch)
    assert "(epoch 1 @ 4 updates)" in (resumed / "rank0.log").read_text()
    assert_as_alone(resumed, alone(arch))


def test_a_port_in_use_ends_all_ranks_with_its_number(workspace, tmp_path):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        torchrun = [Path(sys.executable).with_name("torchrun"), "--nproc-per-node", 2, "--master-port", port]
        train = [*torchrun, *FAIRSEQ_TRAIN]
        process = start(command(workspace, tmp_path, arch="bert_fused_tiny", train=train), tmp_path / "log")
        assert process.wait(timeout=60) != 0
    assert re.search(rf"port: {port}.*address already in use", (tmp_path / "log").read_text())
