"""What the command does now and how long that will take, on stderr: a bar on a terminal, and lines elsewhere."""

import sys
import time
from typing import Any, Callable, Optional

from tqdm import tqdm

_EVERY = 60.0  # seconds between two lines about the same piece of work


def say(text: str) -> None:
    """Write a line about work that has no parts to be counted."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """The progress of a piece of work, as a context.

    Where there is no terminal, it writes a line at the beginning and at the end, and lines with an estimate: the first
    after a few parts, and then one each minute.

    Args:
        title: name of the work.
        total: number of its units.
        unit: name of these units.
        work: total of what `update` gets as *work*, by which the time is estimated; default: *total*.
        parts: number of parts after which the time is estimated.
        clock: function that returns the seconds.
    """

    def __init__(
        self,
        title: str,
        total: int,
        unit: str,
        *,
        work: Optional[float] = None,
        parts: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bar = tqdm(total=total, desc=title, unit=f" {unit}", disable=None)
        self._writes_lines = self._bar.disable  # which is true of each closed bar
        self._title, self._total, self._unit, self._parts, self._clock = title, total, unit, parts, clock
        self._whole_work = float(total if work is None else work)
        self._done, self._work, self._updates = 0, 0.0, 0
        self._start = clock()
        self._next = self._start
        if self._writes_lines:
            say(f"{title}: {total:,} {unit}")

    def __enter__(self) -> "Progress":
        """Return itself."""
        return self

    def __exit__(self, error: Any, *_: Any) -> None:
        """Write the last line, unless the work was broken off."""
        self._bar.close()
        if self._writes_lines and error is None:
            say(f"{self._title}: {self._done:,} {self._unit} in {self._clock() - self._start:.0f} s")

    def update(self, count: int, work: Optional[float] = None) -> None:
        """Count another part, of *count* units; its *work* is *count* by default."""
        self._bar.update(count)
        self._done, self._work = self._done + count, self._work + (count if work is None else work)
        self._updates += 1
        if self._writes_lines and self._updates >= self._parts and self._done < self._total and self._work > 0:
            self._estimate()

    def _estimate(self) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next, seconds = now + _EVERY, now - self._start
        left = seconds * max(0.0, self._whole_work - self._work) / self._work
        say(
            f"{self._title}: {self._done:,} of {self._total:,} {self._unit} after {seconds:.0f} s, "
            f"about {left:.0f} s are left"
        )
