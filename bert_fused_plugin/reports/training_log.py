"""The curves of a training, read from what fairseq-train or fairseq-hydra-train printed, in any --log-format."""

import json
import math
import re
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

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
    values: Dict[str, Dict[str, Dict[int, float]]] = {}
    for path in logs:
        for tag, numbers in _lines(path.read_text(encoding="utf-8", errors="replace")):
            if "num_updates" in numbers:
                for meter in METERS:
                    if meter in numbers:
                        curve = values.setdefault(tag, {}).setdefault(meter, {})
                        curve[int(numbers["num_updates"])] = numbers[meter]
    chosen = {"train": values.get("train_inner") or values.get("train", {}), "valid": values.get("valid", {})}
    return {
        f"{tag} {meter}": sorted(meters[meter].items())
        for tag, meters in chosen.items()
        for meter in METERS
        if meter in meters
    }


def _lines(text: str) -> Iterator[Tuple[str, Dict[str, float]]]:
    for match in _LINE.finditer(text):
        tag, rest = match.groups()
        if rest.startswith("{"):
            try:
                stats = json.loads(rest)
            except ValueError:  # the line was cut off when the training was killed
                continue
            pairs = [(key[len(tag) + 1 :] if key.startswith(f"{tag}_") else key, str(stats[key])) for key in stats]
        else:
            pairs = _PAIR.findall(rest)
        numbers = {}
        for key, value in pairs:
            try:
                number = float(value)
            except ValueError:
                continue
            if math.isfinite(number):  # a loss may be nan, or inf
                numbers[key] = number
        yield tag, numbers
