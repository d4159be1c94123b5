#!/usr/bin/env python3
"""Write an English-German corpus to OUT_DIR/{train,valid,test}.{en,de}.

Each line has one sentence, whose words and punctuation marks are separated by spaces.  The sentences are drawn at
random from the grammar in this folder; the same seed gives the same sentences.  No sentence occurs twice on either
side, so that no sentence of valid and test occurs in train.
"""

import argparse
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set

from grammar import Grammar, Pair

MAX_WORDS = 22


def make_pairs(count: int, seed: int) -> List[Pair]:
    """Return *count* pairs; every source is unique, and so is every target."""
    grammar = Grammar(seed)
    pairs: List[Pair] = []
    seen: Set[str] = set()
    while len(pairs) < count:
        pair = grammar.sentence()
        if seen.isdisjoint(pair) and max(len(text.split()) for text in pair) <= MAX_WORDS:
            seen.update(pair)
            pairs.append(pair)
    return pairs


def write_splits(pairs: Sequence[Pair], sizes: Dict[str, int], folder: Path) -> None:
    """Write one file for each split and language, and print how many words each of them has."""
    folder.mkdir(parents=True, exist_ok=True)
    start = 0
    for split, size in sizes.items():
        for side, language in enumerate(("en", "de")):
            lines = [pair[side] + "\n" for pair in pairs[start : start + size]]
            (folder / f"{split}.{language}").write_bytes("".join(lines).encode())
            print(f"{split}.{language}: {size} sentences, {sum(len(line.split()) for line in lines)} words")
        start += size


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choices (default: %(default)s)")
    parser.add_argument("--train", type=int, default=1000, help="number of training pairs (default: %(default)s)")
    parser.add_argument("--valid", type=int, default=500, help="number of validation pairs (default: %(default)s)")
    parser.add_argument("--test", type=int, default=500, help="number of test pairs (default: %(default)s)")
    options = parser.parse_args(arguments)
    sizes = {"test": options.test, "valid": options.valid, "train": options.train}
    pairs = make_pairs(sum(sizes.values()), options.seed)
    write_splits(pairs, sizes, options.out_dir)
    for english, german in pairs[: min(5, options.test)]:
        print(f"  en: {english}\n  de: {german}")


if __name__ == "__main__":
    main()
