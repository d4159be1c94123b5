"""Random choices, which are the same in every version of Python because only `Random.random` is used."""

import math
import random
from typing import Dict, Sequence, TypeVar

Item = TypeVar("Item")


class Dice:
    """A source of random choices with a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items; all are equally likely."""
        return items[int(self._random.random() * len(items))]

    def weighted(self, weights: Dict[Item, float]) -> Item:
        """Return one of the keys; its probability is in proportion to its weight."""
        point = self._random.random() * math.fsum(weights.values())
        for item, weight in weights.items():
            point -= weight
            if point < 0:
                return item
        return list(weights)[-1]
