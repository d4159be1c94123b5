"""A small parallel corpus, written on the spot."""

import random
from pathlib import Path

from helpers import WORDS


def write_corpus(path: Path, **sizes: int) -> None:
    """Write {split}.en, random words, and {split}.de, the same words in reverse."""
    rng = random.Random(5)
    for split, size in sizes.items():
        lines = [[rng.choice(WORDS[:15]) for _ in range(rng.randint(1, 8))] for _ in range(size)]
        lines[0] = [*lines[0], "play@@", "hou@@", "se"]
        for lang, step in (("en", 1), ("de", -1)):
            text = "".join(" ".join(words[::step]) + "\n" for words in lines)
            (path / f"{split}.{lang}").write_text(text, encoding="utf-8")
