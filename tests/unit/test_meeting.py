"""A process may work for longer than the process group waits; a process that has died does not let the others wait."""

import logging
import os
import socket
import time
from contextlib import nullcontext
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from helpers import processes

from bert_fused_plugin.tasks import meeting as module
from bert_fused_plugin.tasks.meeting import meeting

TIMEOUT = 2  # seconds that the process group waits


def _work(rank, address, seconds, silent, meets, results):
    module._BEAT, module._SILENT, module._SAID_AFTER = 0.2, silent, 1.0
    said = []
    module.logger.setLevel("INFO")
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    module.logger.addHandler(handler)
    timeout = timedelta(seconds=TIMEOUT)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2, timeout=timeout)
    try:
        for name in ("valid", "train"):
            with meeting(name) if meets else nullcontext():
                if rank and name == "train":
                    if seconds == "die":
                        os._exit(1)
                    if seconds == "fail":
                        raise ValueError("my own")
                    time.sleep(seconds)
        total = torch.ones(1)
        dist.all_reduce(total)
        results.put((rank, total.item(), said))
    except (RuntimeError, ValueError) as error:
        results.put((rank, f"{type(error).__name__}: {error}", said))


def run(seconds, silent=1.0, meets=True):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    results = processes().Queue()
    both = [
        processes().Process(target=_work, args=(rank, address, seconds, silent, meets, results)) for rank in range(2)
    ]
    for process in both:
        process.start()
    found = sorted(results.get(timeout=60) for _ in range(1 if seconds == "die" else 2))
    for process in both:
        process.join(30)
        process.kill()
    return found


def test_processes_wait_for_longer_than_the_process_group_does():
    (_, total, said), (_, same, nothing) = run(2.5 * TIMEOUT)
    assert (total, same, nothing) == (2, 2, [])
    assert said
    assert set(said) == {"train: waiting for 1 of 2 processes, which are at work on it"}


def test_without_a_meeting_the_process_group_would_end():
    """So the test above is one."""
    assert "imed out" in str(run(2.5 * TIMEOUT, meets=False)[0][1])


def test_nobody_waits_for_a_process_that_has_died():
    [(rank, message, _)] = run("die")
    assert rank == 0
    assert message.startswith("BertFusedError: 1 of 2 processes have not come to the end of their work on train, and")


def test_nobody_waits_for_a_process_that_has_failed():
    (_, message, _), (_, own, _) = run("fail", silent=1000)
    assert own == "ValueError: my own"
    assert message.startswith("BertFusedError: another process has ended with an error in its work on train;")


def test_a_process_alone_meets_nobody():
    with meeting("train"):
        pass
    with pytest.raises(KeyError), meeting("train"):
        raise KeyError
