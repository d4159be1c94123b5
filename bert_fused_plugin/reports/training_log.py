"""The curves of a training, read from what fairseq-train or fairseq-hydra-train printed, in any --log-format."""

import json
import math
import re
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import DefaultDict, Dict, Iterator, List, Sequence, Tuple

Points = List[Tuple[int, float]]  # (updates, value)
Curves = Dict[str, Points]  # by "train nll_loss", "valid bleu", ...

METERS = ("loss", "nll_loss", "bleu")
# fairseq-train prints "... | valid | ...", and fairseq-hydra-train prints "[...][valid][INFO] - ..."
_LINE = re.compile(r"(?:\| |\]\[)(train_inner|train|valid)(?: \| |\]\[INFO\] - )(.*)")
_PAIR = re.compile(r"\b([a-z_]+)[= ](-?[\d.]+(?:e[+-]?\d+)?)(?=[,\s|]|$)")


def read_curves(logs: Sequence[Path]) -> Curves:
    """Return the curves in *logs*, in the order of their updates; if an update comes twice, the last value counts.

    The curves of the training set are those of ``--log-interval`` or, without such lines, those of whole epochs.
    """
    values: DefaultDict[Tuple[str, str], Dict[int, float]] = defaultdict(dict)
    for path in logs:
        for tag, numbers in _lines(path.read_text(encoding="utf-8", errors="replace")):
            for meter in METERS:
                if meter in numbers and "num_updates" in numbers:
                    values[tag, meter][int(numbers["num_updates"])] = numbers[meter]
    of_training = "train_inner" if any(tag == "train_inner" for tag, _ in values) else "train"
    return {
        f"{name} {meter}": sorted(values[tag, meter].items())
        for name, tag in (("train", of_training), ("valid", "valid"))
        for meter in METERS
        if (tag, meter) in values
    }


def _lines(text: str) -> Iterator[Tuple[str, Dict[str, float]]]:
    for match in _LINE.finditer(text):
        tag, rest = match.groups()
        if rest.startswith("{"):
            try:
                stats = json.loads(rest)
            except ValueError:  # the line was cut off when the training was killed
                continue
            pairs = [(key.removeprefix(f"{tag}_"), str(value)) for key, value in stats.items()]
        else:
            pairs = _PAIR.findall(rest)
        numbers = {}
        for key, value in pairs:
            with suppress(ValueError):
                numbers[key] = float(value)
        yield tag, {key: number for key, number in numbers.items() if math.isfinite(number)}  # a loss may be nan
