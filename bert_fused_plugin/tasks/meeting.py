"""The processes of a training wait for each other after work that may take one of them long.

fairseq's processes exchange data soon after each of them has loaded its data sets: in the trainer, and when the model
is wrapped.  Such an exchange ends with an error if a process comes 10 minutes after the others (NCCL), or 30 minutes
(gloo).  Processes that share a directory make word pieces and BERT's states together, and come together.  Those of
other machines, with directories of their own, may need hours longer.  They meet here first, through the store of the
process group, where a process that is at work says so every few seconds.
"""

import logging
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Iterator

import torch.distributed as dist

from bert_fused_plugin.errors import BertFusedError

logger = logging.getLogger(__name__)

_BEAT = 10.0  # seconds between two signs of life
_SILENT = 1800.0  # seconds without any sign of life after which something is wrong
_SAID_AFTER = 60.0  # seconds of waiting after which the log says so, again and again

_numbers = count()


@contextmanager
def meeting(what: str) -> Iterator[None]:
    """Let all processes of the training wait at the end of the block, until each of them has left it.

    Args:
        what: what the processes work on in the block, for the log.  All of them come through the same blocks.

    Raises:
        BertFusedError: another process has left the block with an error, or no process that is at work has given a
            sign of life for long.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        yield
        return
    from torch.distributed.distributed_c10d import _get_default_store

    store, name = _get_default_store(), f"bert_fused_plugin/{next(_numbers)}"
    working = threading.Event()
    beats = threading.Thread(target=_give_signs_of_life, args=(store, name, working), daemon=True)
    beats.start()
    try:
        yield
    except BaseException:
        with suppress(RuntimeError):  # the process that keeps the store may have ended, too
            store.add(f"{name}/failed", 1)
        raise
    finally:
        working.set()
        beats.join()
    _wait(store, name, what)


def _give_signs_of_life(store: Any, name: str, done: threading.Event) -> None:
    while not done.wait(_BEAT):
        try:
            store.add(f"{name}/signs of life", 1)
        except RuntimeError:  # the process that keeps the store has ended, and this one will at its next exchange
            return


def _wait(store: Any, name: str, what: str) -> None:
    everyone = dist.get_world_size()
    arrived = store.add(f"{name}/arrived", 1)
    begin = heard = said = time.monotonic()
    signs = (0, 0)
    while arrived < everyone:
        now = time.monotonic()
        time.sleep(min(5.0, 0.01 + (now - begin) / 10))
        arrived = store.add(f"{name}/arrived", 0)
        signs, before = (arrived, store.add(f"{name}/signs of life", 0)), signs
        heard = now if signs != before else heard
        if store.add(f"{name}/failed", 0):
            raise BertFusedError(
                f"another process has ended with an error in its work on {what}; look for it in the logs of all "
                "processes, and start them again"
            )
        if now - heard > _SILENT:
            raise BertFusedError(
                f"{everyone - arrived} of {everyone} processes have not come to the end of their work on {what}, and "
                f"none of them has given a sign of life for {_SILENT / 60:.0f} minutes; look for the error in their "
                "logs, and start all processes again"
            )
        if now - said > _SAID_AFTER:
            said = now
            logger.info(f"{what}: waiting for {everyone - arrived} of {everyone} processes, which are at work on it")
