#!/usr/bin/env python
"""Does a model choose the right translation of words that have several?

benchmarks/ambiguous_words.py TRAIN.en TRAIN.de TEST.en TEST.de BASELINE.de SYSTEM.de

The files are text, one sentence a line; the last two are translations of TEST.en.  IBM model 1 (Brown et al. 1993)
finds the translations of each source word in the training text.  A word is ambiguous if at least two of them have a
probability of 0.1 or more and begin differently, so that inflections count once.  The 100 most frequent words of each
language are left out.  A place in the test set counts if the reference has exactly one of the word's translations.  A
system is right if it has this one and none of the others.  p is of the exact two-sided sign test.  Prints JSON.
"""

import collections
import json
import math
import re
import sys
from pathlib import Path
from typing import Dict, List

FREQUENT, STEM, SHARE, COUNT = 100, 4, 0.1, 20  # words left out; letters that differ; of a translation, of a word


def words_of(path: str, letters: int = 1000) -> List[List[str]]:
    """Return the first *letters* of each lower-cased word of a file."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")  # not at the other line ends of Unicode
    return [[word[:letters] for word in re.findall(r"[^\W\d_]+", line.lower())] for line in lines]


def translation_table(source: List[List[str]], target: List[List[str]]) -> Dict[str, Dict[str, float]]:
    """Return p(target word | source word) by five iterations of IBM model 1."""
    table: Dict[str, Dict[str, float]] = collections.defaultdict(lambda: collections.defaultdict(lambda: 1.0))
    for _ in range(5):
        counts: Dict[str, Dict[str, float]] = collections.defaultdict(lambda: collections.defaultdict(float))
        for words, translation in zip(source, target):
            for goal in translation:
                total = sum(table[word][goal] for word in [*words, ""])  # "" is the empty word
                for word in [*words, ""]:
                    counts[word][goal] += table[word][goal] / total
        table = counts
        for row in table.values():
            total = sum(row.values())
            row.update((goal, count / total) for goal, count in row.items())
    return table


def ambiguous_words(source: List[List[str]], target: List[List[str]]) -> Dict[str, List[str]]:
    """Return the translations of each ambiguous word."""
    counts, goals = (collections.Counter(word for words in side for word in words) for side in (source, target))
    frequent = {"", *(word for side in (counts, goals) for word, _ in side.most_common(FREQUENT))}
    ambiguous = {}
    for word, row in translation_table(source, target).items():
        choices = sorted(goal for goal, p in row.items() if p >= SHARE and len(goal) == STEM and goal not in frequent)
        if word not in frequent and counts[word] >= COUNT and len(choices) > 1:
            ambiguous[word] = choices
    return ambiguous


if __name__ == "__main__":
    train, source = words_of(sys.argv[1]), words_of(sys.argv[3])
    train_target, *translations = (words_of(path, STEM) for path in (sys.argv[2], *sys.argv[4:]))
    ambiguous = ambiguous_words(train, train_target)
    right: Dict[str, List[bool]] = {"baseline": [], "system": []}
    for words, *lines in zip(source, *translations):
        for choices in (set(ambiguous[word]) for word in set(words) & set(ambiguous)):
            reference, baseline, system = (choices.intersection(line) for line in lines)
            if len(reference) == 1:
                right["baseline"].append(baseline == reference)
                right["system"].append(system == reference)
    gained, lost = (sum(b is a and s is not a for b, s in zip(*right.values())) for a in (False, True))
    tail = sum(math.comb(gained + lost, k) for k in range(min(gained, lost) + 1)) / 2 ** (gained + lost)
    accuracy = {name: sum(hits) / len(hits) for name, hits in right.items()}
    figures = {"places": len(right["system"]), "accuracy": accuracy, "p": min(1, 2 * tail)}
    print(json.dumps({**figures, "words": ambiguous}, indent=1, ensure_ascii=False))
