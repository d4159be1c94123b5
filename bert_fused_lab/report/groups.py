"""Groups of test sentences: by source length, and by the number of source words that are rare in training."""

from bisect import bisect_left
from typing import Dict, List, Sequence

_LENGTHS = (10, 15, 20, 25, 30)
_LENGTH_NAMES = [*(f"{start + 1}-{end}" for start, end in zip((0, *_LENGTHS), _LENGTHS)), f"over {_LENGTHS[-1]}"]
_RARE_NAMES = ["none", "1", "2", "3 or more"]
Groups = Dict[str, List[int]]  # the numbers of the sentences of each group, by its name


def by_length(words: Sequence[int]) -> Groups:
    """Return groups of sentences by their numbers of *words*."""
    return _group([bisect_left(_LENGTHS, count) for count in words], _LENGTH_NAMES)


def by_rare_words(rare: Sequence[int]) -> Groups:
    """Return groups of sentences by their numbers of *rare* words."""
    return _group([min(count, 3) for count in rare], _RARE_NAMES)


def _group(places: Sequence[int], names: Sequence[str]) -> Groups:
    groups = {name: [i for i, own in enumerate(places) if own == place] for place, name in enumerate(names)}
    return {name: found for name, found in groups.items() if found}
