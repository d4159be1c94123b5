#!/usr/bin/env python
"""Makes typing errors in text, to measure how a model translates what people type.

python examples/typing_errors.py 0.05 < test.en > test-typos.en

Each letter has an error with the given probability: it is swapped with the next one, dropped, doubled, or replaced by a
neighbour on the keyboard.  Tags such as <2de>, and words with & of Moses' tokenizer (&apos;), stay as they are.
"""

import argparse
import re
import sys
from random import Random

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")  # of the keyboard
_BESIDE = {
    key: row[max(0, i - 1) : i] + row[i + 1 : i + 2] + "".join(other[i : i + 1] for other in others)
    for row, others in zip(_ROWS, (_ROWS[1:2], _ROWS[::2], _ROWS[1:2]))
    for i, key in enumerate(row)
}
_SPARED = re.compile(r"<\S+>|\S*&\S*")


def misspelt(word: str, rate: float, random: Random) -> str:
    """Return *word* with errors at the *rate* of its letters; some of it remains."""
    typed, i = "", 0
    while i < len(word):
        letter, after, i = word[i], word[i + 1 : i + 2], i + 1
        if not letter.isalpha() or random.random() >= rate:
            typed += letter
            continue
        ways = [2 * letter, *(random.choice(_BESIDE[key]) for key in [letter.lower()] if key in _BESIDE)]
        ways += [""] if typed or after else []
        ways += [after + letter] if after.isalpha() and after != letter else []
        way = random.choice(ways)
        typed, i = typed + way, i + (way == after + letter)
    return typed


def with_errors(line: str, rate: float, random: Random) -> str:
    """Return *line* with errors at the *rate* of the letters of its words."""
    words = re.split(r"(\s+)", line)
    return "".join(word if _SPARED.fullmatch(word) else misspelt(word, rate, random) for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rate", type=float, help="probability of an error in a letter, such as 0.05")
    rate, random = parser.parse_args().rate, Random(1)
    if not 0 < rate <= 1:
        parser.error(f"the rate must be above 0 and at most 1, such as 0.05, got {rate}")
    sys.stdin.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    for line in sys.stdin:
        sys.stdout.write(with_errors(line, rate, random))


if __name__ == "__main__":
    main()
