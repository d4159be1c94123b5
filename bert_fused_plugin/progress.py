"""What a long piece of work does now and how long it will take: a bar on a terminal, and lines elsewhere."""

import sys
import time
from typing import Any, Callable

from tqdm import tqdm

_FIRST, _EVERY = 10.0, 60.0  # seconds until the first line about a piece of work, and between two lines


def say(text: str) -> None:
    """Write a line about work that has no parts to be counted."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """The progress of a piece of work, as a context.

    Where there is no terminal, *say* writes a first and a last line, and estimates, after *parts* calls of `update`.
    """

    def __init__(self, title: str, total: int, unit: str, *, parts: int = 1, say: Callable[[str], None] = say) -> None:
        self._bar = tqdm(total=total, desc=title, unit=f" {unit}", disable=None)
        self._say = say if self._bar.disable else lambda text: None
        self._title, self._total, self._unit, self._done, self._parts_to_come = title, total, unit, 0, parts
        self._start = time.monotonic()
        self._next = self._start + _FIRST
        self._say(f"{title}: {total:,} {unit}")

    def __enter__(self) -> "Progress":
        """Return itself."""
        return self

    def __exit__(self, error: Any, *_: Any) -> None:
        """Write the last line, unless the work was broken off."""
        self._bar.close()
        if error is None:
            self._say(f"{self._title}: {self._done:,} {self._unit} in {time.monotonic() - self._start:.0f} s")

    def update(self, count: int) -> None:
        """Count another part, of *count* units."""
        self._bar.update(count)
        self._done += count
        self._parts_to_come -= 1
        now = time.monotonic()
        if self._parts_to_come > 0 or now < self._next or self._done >= self._total:
            return
        self._next, seconds = now + _EVERY, now - self._start
        left = seconds * (self._total / self._done - 1)
        self._say(
            f"{self._title}: {self._done:,} of {self._total:,} {self._unit} after {tqdm.format_interval(seconds)}, "
            f"about {tqdm.format_interval(left)} are left"
        )
