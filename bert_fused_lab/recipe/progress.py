"""Shows what matters of fairseq-train's log while it is written: updates, time, validation, warnings."""

import re
import time
from typing import Iterable, Iterator, Optional, Tuple

from tqdm import tqdm

_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| (?P<level>\w+) \| (?P<logger>\S+) \| (?P<text>.*)$")
_UPDATE = re.compile(r"\bnll_loss=(?P<nll>[\d.]+|nan|inf).*\bwps=(?P<wps>[\d.]+).*\bnum_updates=(?P<updates>\d+)")
_VALID = re.compile(r"valid on '\w+' subset .*\| nll_loss ([\d.]+|nan|inf).*\| bleu ([\d.]+).*\| num_updates (\d+)")


def follow(lines: Iterable[str], name: str, updates: int) -> None:
    """Show a training of so many *updates* while the *lines* of its log are written, with a bar on a terminal."""
    with tqdm(total=updates, desc=name, unit=" updates", disable=None) as bar:
        for done, text in shown(lines, name, updates):
            if bar.disable:
                print(text, flush=True)
            elif done is None:
                tqdm.write(text)
            else:
                bar.initial = bar.initial or done  # which the time that is left is computed from
                bar.n = done
                bar.set_postfix_str(text.partition("updates, ")[2].partition(", about")[0])


def shown(lines: Iterable[str], name: str, updates: int) -> Iterator[Tuple[Optional[int], str]]:
    """Yield what people want to see of the *lines* of the log of the system *name*, trained for so many *updates*.

    Each text comes with the number of updates if it is about these alone.
    """
    first: Optional[Tuple[int, float]] = None  # update and time of the first line about one
    is_trace = is_ours = False  # whether the line before is of a trace, or of a message of this package
    for line in lines:
        match = _LINE.match(line)
        if match is None:  # it continues a message, or is an error or a part of a trace
            is_trace = is_trace or line.startswith("Traceback")
            is_detail = is_ours or line[:1] in (" ", ")", "") or "UserWarning" in line
            if is_trace or "error" in line.lower() or not is_detail:
                yield None, line
            continue
        is_trace, is_ours = False, match["logger"].startswith("bert_fused_plugin")
        text = match["text"]
        update, valid = _UPDATE.search(text), _VALID.search(text)
        was_shown = match["logger"] in ("bert_fused_plugin.setup_messages", "sacrebleu")
        if was_shown or "--eval-bleu scores subwords" in text:  # which only chooses checkpoints, so it is no fault
            continue
        if match["level"] != "INFO" or is_ours:
            yield None, f"{name}: {text}"
        elif valid is not None:
            nll, bleu, done = valid.groups()
            yield None, f"{name}: after {int(done):,} updates BLEU {bleu}, nll_loss {nll} in validation"
        elif update is not None and match["logger"].startswith("train_inner"):
            done, now = int(update["updates"]), time.monotonic()
            first = first or (done, now)
            seconds = (now - first[1]) / max(1, done - first[0])
            left = f", about {minutes(seconds * (updates - done))} left" if done > first[0] else ""
            speed = f"{float(update['wps']):,.0f} tokens a second"
            yield done, f"{name}: {done:,} of {updates:,} updates, nll_loss {update['nll']}, {speed}{left}"


def minutes(seconds: float) -> str:
    """Return a duration in the unit that a person would take."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
