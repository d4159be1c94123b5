"""Two processes, on one machine or on two, train as one does."""

import inspect
import re
import shlex
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from fairseq.distributed import utils
from ranks import CPU_DDP, FAIRSEQ_TRAIN, assert_all_end, assert_as_alone, command, free_port, parameters, start

from bert_fused_plugin.cache_command import main

pytestmark = pytest.mark.timeout(900)  # nothing else limits the time of a training: a busy machine needs more


@pytest.fixture(scope="module")
def alone(workspace, tmp_path_factory):
    """Parameters after an epoch of one process with ``--update-freq 2``, by more flags."""

    @lru_cache
    def train(*flags):
        save_dir = tmp_path_factory.mktemp("alone")
        words = command(workspace, save_dir, "--update-freq", "2", *flags, train=())
        workspace.run("fairseq-train", *words, timeout=900)
        return parameters(save_dir / "checkpoint_last.pt")

    return train


def start_two_ranks(arguments, log_dir: Path):
    log_dir.mkdir(exist_ok=True)
    group = ["--distributed-world-size", 2, "--distributed-backend", "gloo", "--distributed-no-spawn"]
    group += ["--distributed-init-method", f"tcp://127.0.0.1:{free_port()}", "--distributed-rank"]
    return [start([*arguments, *group, rank], log_dir / f"rank{rank}.log") for rank in range(2)]


def train_with_two_ranks(workspace, save_dir, *options, train=FAIRSEQ_TRAIN):
    assert_all_end(start_two_ranks(command(workspace, save_dir, *options, train=train), save_dir), save_dir)


@pytest.mark.parametrize("flags", [(), pytest.param(("--consistency", "simcut"), marks=pytest.mark.further)])
def test_two_ranks_train_as_one_process_with_two_batches_an_update(workspace, alone, tmp_path, flags):
    """Dropout and drop-net are on: each rank draws what one process draws for the same batch."""
    train_with_two_ranks(workspace, tmp_path, *flags, train=CPU_DDP)
    assert_as_alone(tmp_path, alone(*flags))


def in_cache(folder):
    return ["--bert-cache", folder, "--bert-cache-dtype", "fp32"]


@pytest.fixture(scope="module")
def cached(workspace, tmp_path_factory):
    """The flags of a cache that one process has filled."""
    flags = in_cache(tmp_path_factory.mktemp("filled"))
    main(["build", *map(str, command(workspace, "none", *flags, train=()))])
    return flags


def test_ranks_that_lack_states_all_end_and_name_the_command_that_computes_them(workspace, alone, tmp_path):
    options = ["--ddp-backend", "legacy_ddp", *in_cache(tmp_path / "my cache")]
    ranks = start_two_ranks(command(workspace, tmp_path / "save", *options), tmp_path)
    assert [rank.wait() for rank in ranks] == [1, 1]
    logs = [(tmp_path / f"rank{rank}.log").read_text() for rank in range(2)]
    assert not any("Traceback" in log for log in logs)
    named = [re.findall("bert_fused_plugin: error: .*; run, once: bert-fused-cache (.*)", log) for log in logs]
    assert list(map(len, named)) == [1, 1]
    assert not (tmp_path / "my cache").exists()
    main(shlex.split(named[1][0]))
    train_with_two_ranks(workspace, tmp_path / "save", *options)
    assert_as_alone(tmp_path / "save", alone())


@pytest.mark.skipif(
    "cfg.distributed_rank % torch.cuda.device_count()" in inspect.getsource(utils),
    reason="fairseq's main divides by the number of GPUs where torchrun has started it",
)
def test_two_machines_train_as_one_process_with_two_batches_an_update(workspace, alone, cached, tmp_path):
    """Two agents of torchrun stand for the machines."""
    torchrun = [Path(sys.executable).with_name("torchrun"), "--nnodes", 2, "--nproc-per-node", 1]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", free_port(), "--node-rank"]
    options = ["--distributed-backend", "gloo", "--distributed-world-size", "2", *cached]
    agents = []
    for machine in range(2):
        train = [*torchrun, machine, CPU_DDP[1]]
        line = command(workspace, tmp_path / "save", *options, train=train)
        agents.append(start(line, tmp_path / f"machine{machine}.log"))
    assert_all_end(agents, tmp_path)
    assert_as_alone(tmp_path / "save", alone())
