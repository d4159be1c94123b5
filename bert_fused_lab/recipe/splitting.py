"""Puts sentence pairs aside for validation and test, where the user has none."""

import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

Pair = Tuple[str, ...]  # source, target, and the text for BERT where it is another one


def read_pairs(paths: Sequence[Path]) -> Iterator[Pair]:
    """Yield the pairs in the files *paths*, without a byte order mark at the beginning of a file.

    A carriage return, which fairseq takes for the end of a line, becomes a space.
    """
    with ExitStack() as opened:
        files = [opened.enter_context(path.open(encoding="utf-8-sig", newline="\n")) for path in paths]
        for pair in zip(*files):
            yield tuple(" ".join(line.split()) for line in pair)


def choose_held_out(paths: Sequence[Path], splits: Sequence[str], seed: int) -> Dict[str, List[Pair]]:
    """Draw pairs of the training text, the files *paths*, for each of *splits*, in which no side comes twice.

    The text is read twice, and only the drawn pairs are in memory.
    """
    rng = random.Random(seed)
    total = sum(all(pair) for pair in read_pairs(paths))
    size = max(1, min(2000, total // 20))
    numbers = set(rng.sample(range(total), min(total, 2 * size * len(splits))))  # twice, since some are repetitions
    drawn = [pair for number, pair in enumerate(filter(all, read_pairs(paths))) if number in numbers]
    rng.shuffle(drawn)
    times = Counter(text for pair in drawn for text in pair[:2])
    for side in (0, 1):
        drawn = list({pair[side]: pair for pair in drawn}.values())
    drawn.sort(key=lambda pair: max(times[text] for text in pair[:2]))  # whose copies training loses, last
    size = min(size, len(drawn) // (len(splits) + 1))
    return {split: drawn[n * size : (n + 1) * size] for n, split in enumerate(splits)}


def training_pairs(paths: Sequence[Path], held_out: Sequence[Pair]) -> Iterator[Pair]:
    """Yield the pairs of *paths* that have all sides, none of which is a side of a pair that was put aside."""
    sources, targets = ({pair[side] for pair in held_out} for side in (0, 1))
    for pair in filter(all, read_pairs(paths)):
        if pair[0] not in sources and pair[1] not in targets:
            yield pair
