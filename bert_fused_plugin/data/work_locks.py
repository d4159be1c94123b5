"""Work that processes share: each of its parts is done by one of them at a time."""

import logging
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

from filelock import FileLock, Timeout

logger = logging.getLogger(__name__)


def take_turns(folder: Path, parts: Sequence[str]) -> Iterator[str]:
    """Yield each of *parts* while no other process is at it: first those that are free, then, waiting, the others.

    A process that comes later to a part, or after one that was killed, has to look what is left of it.
    """
    busy = []
    for part in parts:
        with if_free(folder, part) as free:
            if free:
                yield part
            else:
                busy.append(part)
    if busy:
        logger.info(f"{folder}: waiting for other processes, which are at work on it")
    for part in busy:
        with _lock(folder, part):
            yield part


@contextmanager
def if_free(folder: Path, part: str) -> Iterator[bool]:
    """Take the turn of *part* if no process is at it; say whether."""
    lock = _lock(folder, part)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _lock(folder: Path, part: str) -> FileLock:
    return FileLock(folder / f"{part}.lock")
