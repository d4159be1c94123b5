"""Puts sentence pairs aside for validation and test, where the user has none."""

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Set, Tuple

Pair = Tuple[str, ...]  # source, target, and the text for BERT where it is another one


def held_out_size(pairs: int) -> int:
    """Return how many pairs are put aside for validation, and for the test, out of *pairs*."""
    return max(1, min(2000, pairs // 20))


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

    Reservoir sampling (Vitter 1985, algorithm R): the text is read once, and only the drawn pairs are in memory.
    """
    rng = random.Random(seed)
    complete = (pair for pair in read_pairs(paths) if all(pair))
    total = sum(1 for _ in complete)
    wanted = held_out_size(total) * len(splits)
    drawn: List[Pair] = []
    for number, pair in enumerate(pair for pair in read_pairs(paths) if all(pair)):
        if number < 2 * wanted:  # twice as many as are wanted, since some are repetitions
            drawn.append(pair)
        else:
            place = rng.randint(0, number)
            if place < len(drawn):
                drawn[place] = pair
    rng.shuffle(drawn)
    sources: Set[str] = set()
    targets: Set[str] = set()
    unique: List[Pair] = []
    for pair in drawn:
        source, target = pair[:2]
        if source not in sources and target not in targets:
            unique.append(pair)
            sources.add(source)
            targets.add(target)
    size = min(held_out_size(total), len(unique) // (len(splits) + 1))
    return {split: unique[n * size : (n + 1) * size] for n, split in enumerate(splits)}


def training_pairs(paths: Sequence[Path], held_out: Sequence[Pair]) -> Iterator[Pair]:
    """Yield the pairs of *paths* that have all sides, none of which is a side of a pair that was put aside."""
    sources, targets = ({pair[side] for pair in held_out} for side in (0, 1))
    for pair in read_pairs(paths):
        if all(pair) and pair[0] not in sources and pair[1] not in targets:
            yield pair
