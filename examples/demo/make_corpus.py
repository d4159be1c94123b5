#!/usr/bin/env python3
"""Write an English-German corpus to OUT_DIR/{train,valid,test}.{en,de}.

Each line has one sentence, whose words and punctuation marks are separated by spaces.  The sentences are drawn at
random from the grammar and the lexicon in this folder; the same seed gives the same sentences.  No sentence occurs
twice on either side, so that no sentence of valid and test occurs in train.
"""

import argparse
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set, Tuple

from grammar import Grammar
from grammar.dice import Dice

Pair = Tuple[str, str]
MAX_WORDS = 22


def make_pairs(count: int, seed: int) -> List[Pair]:
    """Return *count* pairs; every source is unique, and so is every target."""
    grammar = Grammar(Dice(seed))
    pairs: List[Pair] = []
    seen: Set[str] = set()
    while len(pairs) < count:
        english, german = grammar.sentence()
        if english in seen or german in seen or max(_length(english), _length(german)) > MAX_WORDS:
            continue
        seen.update((english, german))
        pairs.append((english, german))
    return pairs


def split_pairs(pairs: Sequence[Pair], sizes: Dict[str, int]) -> Dict[str, Sequence[Pair]]:
    """Return the pairs as splits of the given sizes."""
    splits, start = {}, 0
    for name, size in sizes.items():
        splits[name] = pairs[start : start + size]
        start += size
    return splits


def write_splits(splits: Dict[str, Sequence[Pair]], folder: Path) -> None:
    """Write one file for each split and language."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in splits.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(pair[side] + "\n" for pair in pairs)
            with open(folder / f"{name}.{language}", "w", encoding="utf-8", newline="\n") as file:
                file.write(text)


def _length(text: str) -> int:
    return len(text.split())


def _summary(splits: Dict[str, Sequence[Pair]]) -> List[str]:
    lines = []
    for name, pairs in splits.items():
        english, german = (sum(_length(pair[side]) for pair in pairs) for side in (0, 1))
        mean = english / max(1, len(pairs))
        lines.append(f"{name}: {len(pairs)} pairs, {english} English and {german} German words, {mean:.1f} a sentence")
    return lines


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choices (default: %(default)s)")
    parser.add_argument("--train", type=int, default=20000, help="number of training pairs (default: %(default)s)")
    parser.add_argument("--valid", type=int, default=500, help="number of validation pairs (default: %(default)s)")
    parser.add_argument("--test", type=int, default=500, help="number of test pairs (default: %(default)s)")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    sizes = {"test": options.test, "valid": options.valid, "train": options.train}
    splits = split_pairs(make_pairs(sum(sizes.values()), options.seed), sizes)
    write_splits(splits, options.out_dir)
    print("\n".join(_summary(splits)))
    for english, german in splits["test"][:5]:
        print(f"  en: {english}\n  de: {german}")
    print(f"The corpus was written to {options.out_dir} in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
