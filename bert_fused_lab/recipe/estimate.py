"""How long will the trainings of a recipe take?  From some updates and translations on the same machine.

python examples/estimate.py PROBE TEXT LANG UPDATES MORE EVERY SEEDS

PROBE holds what the step estimate of recipe.sh has made, for the transformer (plain) and for BERT-fused (fused):

- KIND.log: of fairseq-train with --log-format json: some updates on train.LANG, and then a validation and checkpoints;
- KIND.seconds: how long that command took;
- KIND-test.log: of fairseq-generate on test.LANG.

TEXT holds the whole text, and LANG is the target language.  UPDATES are those of the transformer, MORE the further ones
of the control and of the BERT-fused model, with a validation after EVERY so many, in batches
of --max-tokens.  SEEDS is the number of seeds.
"""

import json
import math
import re
import statistics
import sys
from datetime import datetime
from pathlib import Path
from typing import Dict, List

from progress import minutes

_FUSED_TRANSLATIONS = 4  # of the test set in the report: BERT on, off, shuffled and random
_ATTENTION = 1  # reading off what the translations attend to, in times of translating them


def size(path: Path) -> int:
    """Return the number of tokens of a text, with the ends of its sentences."""
    with path.open(encoding="utf-8") as lines:
        return sum(len(line.split()) + 1 for line in lines)


class Probe:
    """What was measured of one kind of model.

    Args:
        folder: the directory PROBE.
        kind: ``plain`` or ``fused``.

    Attributes:
        update: seconds of an update; the first updates do not count, in which memory warms up.
        validation: seconds of a validation and of writing its checkpoints.
        translation: seconds in which a target token of the test set is translated.
        start: seconds until a training begins, without BERT's states.

    Raises:
        SystemExit: a log has no updates or no translations.
    """

    def __init__(self, folder: Path, kind: str, language: str) -> None:
        self._log = (folder / f"{kind}.log").read_text(encoding="utf-8")
        updates, trained = self._figures("train_inner", "ups"), self._figures("valid", "valid_num_updates")
        translated = (folder / f"{kind}-test.log").read_text(encoding="utf-8")
        found = re.search(r"Translated [\d,]+ sentences .* in ([\d.]+)s", translated)
        if not updates or not trained or found is None:
            raise SystemExit(f"error: {folder}/{kind}.log or {kind}-test.log has no figures; their last lines say why")
        self.translation = float(found[1]) / size(folder / f"test.{language}")
        self.update = 1 / max(1e-3, statistics.median(updates[1:]))
        writing = re.findall(r"writing took ([\d.]+) seconds", self._log)
        self.validation = self._seconds_between("begin validation", "| valid |") + sum(map(float, writing))
        built = sum(map(float, re.findall(r"BERT cache: [\d,]+ word pieces in (\d+) s", self._log)))
        self.states = built / (size(folder / f"train.{language}") + size(folder / f"valid.{language}"))
        seconds = float((folder / f"{kind}.seconds").read_text(encoding="utf-8"))
        self.start = max(0.0, seconds - trained[-1] * self.update - self.validation - built)

    def _figures(self, stage: str, name: str) -> List[float]:
        found = re.findall(rf"\| {stage} \| (\{{.*\}})", self._log)
        return [float(json.loads(line)[name]) for line in found]

    def _seconds_between(self, begin: str, end: str) -> float:
        """Return the time from the first line with *begin* to the first one with *end*, or 0 without such lines."""
        lines = [re.search(rf"^(.{{19}}).*{re.escape(text)}", self._log, re.M) for text in (begin, end)]
        times = [datetime.fromisoformat(line[1]) for line in lines if line is not None]
        return (times[1] - times[0]).total_seconds() if len(times) == 2 else 0.0

    def training(self, updates: int, every: int) -> float:
        """Return the seconds of a training, with a validation after *every* so many updates."""
        return self.start + updates * self.update + math.ceil(updates / every) * self.validation


def steps(probe: Path, text: Path, language: str, updates: int, more: int, every: int, seeds: int) -> Dict[str, float]:
    """Return the seconds of each step, for all *seeds*: *updates*, *more*, and a validation after *every* so many."""
    plain, fused = (Probe(probe, kind, language) for kind in ("plain", "fused"))
    train, valid = size(text / f"train.{language}"), size(probe / f"valid.{language}")
    tests = [text / f"test.{language}", *text.glob(f"test-*.{language}")]
    test = sum(map(size, tests))  # the comparison translates all of them
    translations = 2 * plain.translation + (_FUSED_TRANSLATIONS + _ATTENTION) * fused.translation
    return {
        "transformer": seeds * plain.training(updates, every),
        "continued": seeds * plain.training(more, every),
        "BERT's states": fused.states * (train + valid),
        "bert_fused": seeds * fused.training(more, every),
        # after each seed all are compared
        "compare": seeds * (plain.start + test * translations * (seeds + 1) / 2),
    }


if __name__ == "__main__":
    seconds = steps(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
    each = ", ".join(f"{step} {minutes(time)}" for step, time in seconds.items())
    print(f"expected time, at most: {minutes(sum(seconds.values()))} ({each})")
