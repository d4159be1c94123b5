"""Copies parallel text without the pairs that are empty, too long, or too different in length.

    python -m bert_fused_lab.recipe.clean_pairs INPUT OUTPUT SRC TGT WORDS

reads INPUT.SRC and INPUT.TGT, and writes OUTPUT.SRC and OUTPUT.TGT.  As Moses' clean-corpus-n.perl does, it leaves out
the pairs with a sentence that is empty or has more than WORDS words, or that has more than 1.5 times as many words as
the other one.  Words are what spaces separate, so this is not for raw Chinese or Japanese.
"""

import sys
from itertools import zip_longest
from pathlib import Path

from bert_fused_plugin.errors import BertFusedError


def clean_pairs(text: str, output: str, source: str, target: str, longest: int) -> None:
    """Write the pairs that are translations of each other by their numbers of words, at most *longest*.

    Raises:
        BertFusedError: the two files have different numbers of lines.
    """
    paths = [Path(f"{name}.{language}") for name in (text, output) for language in (source, target)]
    sources, targets = (path.open(encoding="utf-8", newline="\n") for path in paths[:2])
    new_sources, new_targets = (path.open("w", encoding="utf-8", newline="\n") for path in paths[2:])
    with sources, targets, new_sources, new_targets:
        for pair in zip_longest(sources, targets):
            if None in pair:
                raise BertFusedError(f"{paths[0]} and {paths[1]} must have equally many lines")
            fewer, more = sorted(len(line.split()) for line in pair)
            if fewer > 0 and more <= min(longest, 1.5 * fewer):
                new_sources.write(pair[0])
                new_targets.write(pair[1])


if __name__ == "__main__":
    clean_pairs(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
