"""Two agents of torchrun on this machine, as on two machines, train as one process does."""

import inspect
import sys
from pathlib import Path

import pytest
from fairseq.distributed import utils
from ranks import CPU_DDP, assert_all_end, assert_as_alone, command, free_port, start

pytestmark = pytest.mark.skipif(
    "cfg.distributed_rank % torch.cuda.device_count()" in inspect.getsource(utils),
    reason="fairseq's main divides by the number of GPUs where torchrun has started it",
)

CACHED = ["--bert-cache-dtype", "fp32", "--bert-cache"]


def train_on_two_machines(workspace, folder, caches):
    """Train with one agent for each of two machines, whose caches are the folders *caches*."""
    torchrun = [Path(sys.executable).with_name("torchrun"), "--nnodes", 2, "--nproc-per-node", 1]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", free_port(), "--node-rank"]
    options, agents = ["--distributed-backend", "gloo", "--distributed-world-size", "2", *CACHED], []
    for machine, cache in enumerate(caches):
        train = [*torchrun, machine, CPU_DDP[1]]
        line = command(workspace, folder / "save", *options, cache, arch="bert_fused_tiny", train=train)
        agents.append(start(line, folder / f"machine{machine}.log"))
    assert_all_end(agents, folder)


@pytest.mark.parametrize(
    "caches",
    [pytest.param(["shared", "shared"], marks=pytest.mark.slow), ["of-0", "of-1"]],
    ids=["shared cache", "own caches"],
)
def test_two_machines_train_as_one_process_with_two_batches_an_update(workspace, alone, tmp_path, caches):
    train_on_two_machines(workspace, tmp_path, [tmp_path / cache for cache in caches])
    assert_as_alone(tmp_path / "save", alone("bert_fused_tiny"))
    sizes = {cache: sum(f.stat().st_size for f in (tmp_path / cache).glob("*/*/*.safetensors")) for cache in caches}
    assert all(sizes.values())
    assert len(set(sizes.values())) == 1
