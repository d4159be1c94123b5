"""Makes typing errors in text, to measure how a model translates what people type.

    python -m bert_fused_lab.recipe.typing_errors 0.05 < test.en > test-typos.en

Each letter has an error with the given probability: it is swapped with the next one, dropped, doubled, or replaced by a
neighbour on the keyboard.  Tags (<2de>, __de__, [de_DE]) and words with & of Moses' tokenizer (&apos;) stay.
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
_SPARED = re.compile(r"<.+>|__.+__|\[.+\]|.*&.*")


def misspelt(word: str, rate: float, random: Random) -> str:
    """Return *word* with errors at the *rate* of its letters; some of it remains."""
    typed, i = "", 0
    while i < len(word):
        letter, after, i = word[i], word[i + 1 : i + 2], i + 1
        if not letter.isalpha() or random.random() >= rate:
            typed += letter
            continue
        ways = [(2 * letter, 0)]  # what is typed, and how many of the next letters are
        ways += [(random.choice(_BESIDE[letter.lower()]), 0)] if letter.lower() in _BESIDE else []
        ways += [("", 0)] if typed or after else []
        ways += [(after + letter, 1)] if after.isalpha() and after != letter else []
        way, further = random.choice(ways)
        typed, i = typed + way, i + further
    return typed


def with_errors(text: str, rate: float, random: Random) -> str:
    """Return *text* with errors at the *rate* of the letters of its words."""
    return re.sub(r"\S+", lambda word: word[0] if _SPARED.fullmatch(word[0]) else misspelt(word[0], rate, random), text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rate", type=float, help="probability of an error in a letter, such as 0.05")
    rate = parser.parse_args().rate
    if not 0 < rate <= 1:
        parser.error(f"the rate must be above 0 and at most 1, such as 0.05, got {rate}")
    typed = with_errors(sys.stdin.buffer.read().decode(), rate, Random(1))
    sys.stdout.buffer.write(typed.encode())
