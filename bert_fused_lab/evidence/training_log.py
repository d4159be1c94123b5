"""The curves of a training, read from what fairseq-train or fairseq-hydra-train printed, in any --log-format."""

import re
from collections import defaultdict
from pathlib import Path
from typing import DefaultDict, Dict, List, Sequence, Tuple

Points = List[Tuple[int, float]]  # (updates, value)
Curves = Dict[str, Points]  # by "train nll_loss", "valid bleu", ...

METERS = ("loss", "nll_loss", "bleu")
# fairseq-train prints "... | valid | ...", and fairseq-hydra-train prints "[...][valid][INFO] - ..."
_LINE = re.compile(r"(?:\| |\]\[)(train_inner|train|valid)(?: \| |\]\[INFO\] - )(.*)")
# loss=1.5 and "loss 1.5 |", or in JSON "valid_loss": "1.5"; nan and inf have no match
_PAIR = re.compile(r'\b([a-z_]+)"?(?:[= ]|: )("?)(-?\d+\.?\d*(?:e[+-]?\d+)?)\2(?=[,\s|}]|$)')


def read_curves(logs: Sequence[Path]) -> Curves:
    """Return the curves in *logs*, in the order of their updates; if an update comes twice, the last value counts.

    The curves of the training set are those of ``--log-interval`` or, without such lines, those of whole epochs.
    """
    values: DefaultDict[Tuple[str, str], Dict[int, float]] = defaultdict(dict)
    for path in logs:
        for tag, rest in _LINE.findall(path.read_text(encoding="utf-8", errors="replace")):
            numbers = {key.removeprefix(f"{tag}_"): float(value) for key, _, value in _PAIR.findall(rest)}
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
