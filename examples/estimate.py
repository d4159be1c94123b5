"""How long will the trainings of a recipe take?  From the logs of some updates on the same machine.

python examples/estimate.py --transformer LOG --fused LOG --updates N --more N ...

Each log is of fairseq-train with --log-format json.  The BERT-fused one also built BERT's states for its few pairs.
"""

import argparse
import json
import re
import statistics
from datetime import datetime
from pathlib import Path
from typing import List, Optional, Sequence

from progress import minutes

_START = 30  # seconds until a command has imported its libraries and loaded data and model, five times
_DECODING = 9  # time to translate a sentence with beam 5, in times of training on it once; seen with the tiny sizes
_TRANSLATIONS = 6  # of the test set in the report: the baseline, the transformer, and the fused model with four BERTs
_VALIDATION = 1.08  # validation and the writing of checkpoints


def figures(log: Path, name: str) -> List[float]:
    """Return one figure of each line about updates in a log but the first, in which memory warms up.

    Raises:
        SystemExit: there are no updates in the log.
    """
    found = re.findall(r"\| train_inner \| (\{.*\})", log.read_text(encoding="utf-8"))
    values = [float(json.loads(line)[name]) for line in found]
    if not values:
        raise SystemExit(f"error: {log} has no updates; its last lines say why")
    return values[1:] or values


def seconds_per_update(log: Path) -> float:
    """Return the median time of an update in a log."""
    return 1 / max(1e-3, statistics.median(figures(log, "ups")))


def tokens_per_update(log: Path) -> float:
    """Return the mean number of target tokens of an update in a log."""
    return statistics.mean(figures(log, "wpb"))


def size(path: Path) -> int:
    """Return the number of tokens of a text, with the ends of its sentences."""
    with path.open(encoding="utf-8") as lines:
        return sum(len(line.split()) + 1 for line in lines)


def seconds_of_cache(log: Path) -> float:
    """Return the time in which BERT's states were built: from the cache's opening to the first epoch."""
    times = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        for name, text in (("begin", "word pieces for BERT"), ("end", "begin training epoch")):
            if text in line and name not in times:
                times[name] = datetime.strptime(line[:19], "%Y-%m-%d %H:%M:%S")
    return (times["end"] - times["begin"]).total_seconds() if len(times) == 2 else 0.0


def main(args: argparse.Namespace) -> None:
    """Print the time of each step and the sum."""
    plain, fused = seconds_per_update(args.transformer), seconds_per_update(args.fused)
    steps = {
        "transformer": args.updates * plain * _VALIDATION,
        "continued": args.more * plain * _VALIDATION,
        "BERT's states": seconds_of_cache(args.fused) * size(args.train) / size(args.probe),
        "bert_fused": args.more * fused * _VALIDATION,
        "compare": _TRANSLATIONS * _DECODING * plain * size(args.test) / tokens_per_update(args.transformer),
    }
    total = sum(steps.values()) + 5 * _START
    print(f"expected time: {minutes(total)} ({', '.join(f'{step} {minutes(time)}' for step, time in steps.items())})")


def parse_args(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, text in (
        ("--transformer", "log of the transformer"),
        ("--fused", "log of the BERT-fused model"),
        ("--probe", "target text of the logs"),
        ("--train", "target text of the trainings"),
        ("--test", "target text of the test set"),
    ):
        parser.add_argument(flag, type=Path, required=True, metavar="FILE", help=text)
    for flag, text in (
        ("--updates", "updates of the transformer"),
        ("--more", "further updates of the control and of the BERT-fused model"),
    ):
        parser.add_argument(flag, type=int, required=True, metavar="N", help=text)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(parse_args())
