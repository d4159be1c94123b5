"""Locks on the parts of a work that several processes share, so that one process at a time does each part."""

import errno
import logging
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Sequence

from filelock import FileLock, SoftFileLock, Timeout

logger = logging.getLogger(__name__)

_NO_SOFT_LOCKS: Dict[str, Any] = (
    {"fallback_to_soft": False} if "fallback_to_soft" in signature(FileLock.__init__).parameters else {}
)
_SAID_AFTER = 60  # seconds of waiting after which the log says so once more


def each_part_locked(folder: Path, parts: Sequence[str], describe: Callable[[], str] = lambda: "") -> Iterator[str]:
    """Yield each of *parts* while this process holds its lock: first the free ones, then those it has to wait for.

    Another process may have done all or some of a part before this one gets its lock, or may have been killed at
    it, so the caller must look at what is left to do.

    Args:
        folder: folder of the locks.
        parts: names of the parts.
        describe: a function that returns how far the work is, as the end of a sentence for the log.
    """
    busy = []
    for part in parts:
        with try_lock(folder, part) as locked:
            if locked:
                yield part
            else:
                busy.append(part)
    if busy:
        _say_waiting(folder, describe)
    for part in busy:
        lock = _lock(folder, part)
        while True:
            try:
                lock.acquire(timeout=_SAID_AFTER)
                break
            except Timeout:
                _say_waiting(folder, describe)
        try:
            yield part
        finally:
            lock.release()


def _say_waiting(folder: Path, describe: Callable[[], str]) -> None:
    logger.info(f"{folder}: waiting for other processes, which are at work on it{describe()}")


@contextmanager
def try_lock(folder: Path, part: str) -> Iterator[bool]:
    """Lock *part* if no other process holds its lock; yield whether this process holds it now."""
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


def _lock(folder: Path, part: str) -> "WorkLock":
    return WorkLock(folder / f"{part}.lock")


class WorkLock(FileLock):
    """A lock on a file, which ends with the process that holds it, also if that process is killed.

    Where a file system has no such locks, filelock has raised a NotImplementedError first, and then used files that
    stay when a process is killed.  It can be told not to do this since version 3.30.

    Args:
        file: path of the file.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(str(file), **_NO_SOFT_LOCKS)

    def acquire(self, *args: Any, **options: Any) -> Any:
        """Lock the file; the arguments are those of filelock.

        Raises:
            Timeout: another process holds the lock.
            OSError: the file system has no locks, or the file cannot be written.
        """
        try:
            held = super().acquire(*args, **options)
        except (NotImplementedError, Timeout) as error:
            if isinstance(error, NotImplementedError) or isinstance(self, SoftFileLock):
                raise _no_locks(self.lock_file) from error
            raise
        if isinstance(self, SoftFileLock):  # filelock has made it one
            self.release()
            raise _no_locks(self.lock_file)
        return held


def _no_locks(file: str) -> OSError:
    return OSError(errno.ENOSYS, "the file system has no locks", file)
