"""Shows what matters of fairseq-train's log while it is written: updates, the time that is left, validation, warnings.

fairseq-train ... --log-format simple 2>&1 | tee -a LOG | python examples/progress.py NAME UPDATES
"""

import re
import signal
import sys
import time
from typing import Iterable, Iterator, Optional, Tuple

_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| (?P<level>\w+) \| (?P<logger>\S+) \| (?P<text>.*)$")
_UPDATE = re.compile(r"\bnll_loss=(?P<nll>[\d.]+|nan|inf).*\bwps=(?P<wps>[\d.]+).*\bnum_updates=(?P<updates>\d+)")
_VALID = re.compile(r"valid on '\w+' subset .*\| nll_loss ([\d.]+).*\| bleu ([\d.]+).*\| num_updates (\d+)")


def shown(lines: Iterable[str], name: str, updates: int) -> Iterator[str]:
    """Yield what people want to see of the *lines* of the log of the system *name*, trained for so many *updates*."""
    first: Optional[Tuple[int, float]] = None  # update and time of the first line about one
    is_trace = is_ours = False  # whether the line before is of a trace, or of a message of this package
    for line in lines:
        found = _LINE.match(line)
        if found is None:  # it continues a message, or is an error or a part of a trace
            is_trace = is_trace or line.startswith("Traceback")
            is_detail = is_ours or line[:1] in (" ", ")", "") or "UserWarning" in line
            if is_trace or "error" in line.lower() or not is_detail:
                yield line
            continue
        is_trace, is_ours = False, found["logger"].startswith("bert_fused_plugin")
        text = found["text"]
        update, valid = _UPDATE.search(text), _VALID.search(text)
        was_shown = found["logger"] in ("bert_fused_plugin.setup_messages", "sacrebleu")
        if was_shown or "--eval-bleu scores subwords" in text:  # which only chooses checkpoints, so it is no fault
            continue
        if found["level"] != "INFO" or is_ours:
            yield f"{name}: {text}"
        elif valid is not None:
            nll, bleu, done = valid.groups()
            yield f"{name}: after {int(done):,} updates BLEU {bleu}, nll_loss {nll} in validation"
        elif update is not None and found["logger"].startswith("train_inner"):
            done, now = int(update["updates"]), time.monotonic()
            first = first or (done, now)
            each = (now - first[1]) / max(1, done - first[0])
            left = f", about {minutes(each * (updates - done))} left" if done > first[0] else ""
            speed = f"{float(update['wps']):,.0f} tokens a second"
            yield f"{name}: {done:,} of {updates:,} updates, nll_loss {update['nll']}, {speed}{left}"


def minutes(seconds: float) -> str:
    """Return a duration in the unit that a person would take."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # fairseq-train ends at an interrupt, and says so
    for worth in shown((line.rstrip("\n") for line in sys.stdin), sys.argv[1], int(sys.argv[2])):
        print(worth, flush=True)
