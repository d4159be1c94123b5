"""What a long piece of work does now and how long it will take: a bar on a terminal, and lines elsewhere."""

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

    Where there is no terminal, it lets *say* write a line at the beginning and at the end, and lines with an estimate:
    the first after some *parts*, and then one each minute.  The time is estimated by the total of what `update` gets as
    *work*, which is *total* by default.
    """

    def __init__(
        self,
        title: str,
        total: int,
        unit: str,
        *,
        work: Optional[float] = None,
        parts: int = 2,
        say: Callable[[str], None] = say,
    ) -> None:
        self._bar = tqdm(total=total, desc=title, unit=f" {unit}", disable=None)
        self._say = say if self._bar.disable else lambda text: None
        self._title, self._total, self._unit, self._parts_to_come = title, total, unit, parts
        self._whole_work = total if work is None else work
        self._done, self._work = 0, 0.0
        self._start = self._next = time.monotonic()
        self._say(f"{title}: {total:,} {unit}")

    def __enter__(self) -> "Progress":
        """Return itself."""
        return self

    def __exit__(self, error: Any, *_: Any) -> None:
        """Write the last line, unless the work was broken off."""
        self._bar.close()
        if error is None:
            self._say(f"{self._title}: {self._done:,} {self._unit} in {time.monotonic() - self._start:.0f} s")

    def update(self, count: int, work: Optional[float] = None) -> None:
        """Count another part, of *count* units; its *work* is *count* by default."""
        self._bar.update(count)
        self._done += count
        self._work += count if work is None else work
        self._parts_to_come -= 1
        now = time.monotonic()
        if self._parts_to_come > 0 or now < self._next or self._done >= self._total or not self._work:
            return
        self._next, seconds = now + _EVERY, now - self._start
        left = seconds * max(0.0, self._whole_work - self._work) / self._work
        self._say(
            f"{self._title}: {self._done:,} of {self._total:,} {self._unit} after {tqdm.format_interval(seconds)}, "
            f"about {tqdm.format_interval(left)} are left"
        )
