"""The progress of a long work: a bar on a terminal; elsewhere a line in the log for each tenth, with the time to go."""

import logging
import time
from contextlib import contextmanager
from typing import Iterator

from tqdm import tqdm

logger = logging.getLogger(__name__)


class Progress:
    """How much of a work is done, by this process or by others.

    Args:
        bar: a bar of tqdm; one that is disabled gives lines in the log instead.
        logged: whether there are lines in the log.
    """

    def __init__(self, bar: "tqdm[object]", logged: bool) -> None:
        self._bar = bar
        self._logged = logged
        self._begin = time.monotonic()
        self._first = 0
        self._done = 0

    def begin_at(self, done: int) -> None:
        """Say how much was *done* before this process began."""
        self._first = self._done = done
        self._bar.update(done)

    def reach(self, done: int) -> None:
        """Say how much is *done* in all."""
        done = min(max(done, self._done), self._bar.total)
        tenths, self._done = 10 * self._done // self._bar.total, done
        self._bar.update(done - self._bar.n)
        if self._bar.disable and self._logged and 10 * done // self._bar.total > tenths:
            logger.info(f"{self._bar.desc}: {self}")

    def advance(self, amount: int) -> None:
        """Say that this *amount* more is done."""
        self.reach(self._done + amount)

    def __str__(self) -> str:
        """Return how much is done, and how long the rest takes at the speed up to now."""
        total, new = self._bar.total, self._done - self._first
        text = f"{100 * self._done // total} % of {total:,}{self._bar.unit}"
        if not new or self._done == total:
            return text
        return f"{text}, {_duration((time.monotonic() - self._begin) * (total - self._done) / new)} to go"


@contextmanager
def progress(what: str, total: int, unit: str, logged: bool) -> Iterator[Progress]:
    """Show the progress of *what* towards *total*, counted in *unit*; *logged* says whether the log has lines of it."""
    with tqdm(total=total, desc=what, unit=f" {unit}", disable=None, leave=False) as bar:
        bar.desc, bar.unit = what, f" {unit}"  # which a disabled bar does not keep
        yield Progress(bar, logged)


def _duration(seconds: float) -> str:
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
