"""Shows what matters of fairseq-train's log while it is written: updates, the time that is left, validation, warnings.

fairseq-train ... --log-format simple 2>&1 | python examples/progress.py NAME UPDATES LOG

The whole log is appended to the file LOG.
"""

import re
import sys
import time
from pathlib import Path
from typing import Optional, TextIO

_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| (?P<level>\w+) \| (?P<logger>\S+) \| (?P<text>.*)$")
_UPDATE = re.compile(r"\bnll_loss=(?P<nll>[\d.]+).*\bwps=(?P<wps>[\d.]+).*\bnum_updates=(?P<updates>\d+)")
_VALID = re.compile(r"valid on '\w+' subset .*\| nll_loss ([\d.]+).*\| bleu ([\d.]+).*\| num_updates (\d+)")
_OURS = "bert_fused_plugin"
_SAID_AGAIN = "bert_fused_plugin.setup_messages"  # what was shown where it was said first


class Progress:
    """Turns lines of the log into lines for people.

    Args:
        name: name of the system that is trained.
        updates: number of updates of the whole training.
    """

    def __init__(self, name: str, updates: int) -> None:
        self.name, self.updates = name, updates
        self._first: Optional[tuple[int, float]] = None  # update and time of the first line about one
        self._trace = self._ours = False  # whether the line before is of a trace, or of a message of this package

    def show(self, line: str) -> Optional[str]:
        """Return what is shown in place of one line of the log, or None."""
        found = _LINE.match(line)
        if found is None:
            return self._without_time(line)
        self._trace, self._ours = False, found["logger"].startswith(_OURS)
        text = found["text"]
        if found["logger"] == _SAID_AGAIN:
            return None
        if found["level"] != "INFO" or self._ours:
            return f"{self.name}: {text}"
        update, valid = _UPDATE.search(text), _VALID.search(text)
        if valid is not None:
            nll, bleu, updates = valid.groups()
            return f"{self.name}: after {int(updates):,} updates BLEU {bleu}, nll_loss {nll} in validation"
        if update is None or not found["logger"].startswith("train_inner"):
            return None
        done = int(update["updates"])
        speed = f"{float(update['wps']):,.0f} tokens a second"
        return f"{self.name}: {done:,} of {self.updates:,} updates, nll_loss {update['nll']}, {speed}{self._left(done)}"

    def _without_time(self, line: str) -> Optional[str]:
        """Return what is shown in place of a line that continues a message, or of an error or a trace."""
        self._trace = self._trace or line.startswith("Traceback")
        is_detail = self._ours or line[:1] in (" ", ")", "") or "UserWarning" in line
        return line if self._trace or "error" in line.lower() or not is_detail else None

    def _left(self, done: int) -> str:
        now = time.monotonic()
        if self._first is None:
            self._first = (done, now)
        first, began = self._first
        if done <= first:
            return ""
        seconds = (now - began) / (done - first) * (self.updates - done)
        return f", about {minutes(seconds)} left"


def minutes(seconds: float) -> str:
    """Return a duration in the unit that a person would take."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def main(name: str, updates: int, log: Path, source: TextIO) -> None:
    """Append *source* to the file *log*, and print what is worth showing of it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(name, updates)
    with log.open("a", encoding="utf-8") as file:
        for line in source:
            file.write(line)
            file.flush()
            shown = progress.show(line.rstrip("\n"))
            if shown is not None:
                print(shown, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4 or not sys.argv[2].isdigit():
        sys.exit(f"error: usage: {sys.argv[0]} NAME UPDATES LOG")
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.stdin)
