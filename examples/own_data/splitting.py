"""Puts sentence pairs aside for validation and test, where the user has none."""

import random
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Set, Tuple

Pair = Tuple[str, str]


def held_out_size(pairs: int) -> int:
    """Return how many pairs are put aside for validation, and for the test, out of *pairs*."""
    return max(1, min(2000, pairs // 20))


def read_pairs(data: Path, split: str, languages: Sequence[str]) -> Iterator[Pair]:
    """Yield the pairs of *split*, without a byte order mark at the beginning of a file.

    A carriage return, which fairseq takes for the end of a line, becomes a space.
    """
    paths = [data / f"{split}.{language}" for language in languages]
    with (
        paths[0].open(encoding="utf-8-sig", newline="\n") as source,
        paths[1].open(encoding="utf-8-sig", newline="\n") as target,
    ):
        for pair in zip(source, target):
            first, second = (" ".join(line.split()) for line in pair)
            yield first, second


def choose_held_out(data: Path, languages: Sequence[str], splits: Sequence[str], seed: int) -> Dict[str, List[Pair]]:
    """Draw pairs of the training text for each of *splits*; each source and each target occurs once among them.

    Reservoir sampling (Vitter 1985, algorithm R): the text is read once, and only the drawn pairs are in memory.
    """
    rng = random.Random(seed)
    complete = (pair for pair in read_pairs(data, "train", languages) if all(pair))
    total = sum(1 for _ in complete)
    wanted = held_out_size(total) * len(splits)
    drawn: List[Pair] = []
    for number, pair in enumerate(pair for pair in read_pairs(data, "train", languages) if all(pair)):
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
    for source, target in drawn:
        if source not in sources and target not in targets:
            unique.append((source, target))
            sources.add(source)
            targets.add(target)
    size = min(held_out_size(total), len(unique) // (len(splits) + 1))
    return {split: unique[n * size : (n + 1) * size] for n, split in enumerate(splits)}


def training_pairs(data: Path, languages: Sequence[str], held_out: Sequence[Pair]) -> Iterator[Pair]:
    """Yield the training pairs that have both sides, neither of which is a side of a pair that was put aside."""
    sources, targets = ({pair[side] for pair in held_out} for side in (0, 1))
    for source, target in read_pairs(data, "train", languages):
        if source and target and source not in sources and target not in targets:
            yield source, target
