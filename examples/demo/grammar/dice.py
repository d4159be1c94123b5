"""Random choices that are the same on every Python: only `Random.random` is used."""

import math
import random
from typing import Dict, Sequence, TypeVar

Item = TypeVar("Item")


class Dice:
    """A seeded source of choices."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return self._random.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items, all equally likely."""
        return items[int(self._random.random() * len(items))]

    def weighted(self, weights: Dict[Item, float]) -> Item:
        """One of the keys, as likely as its weight."""
        point = self._random.random() * math.fsum(weights.values())
        for item, weight in weights.items():
            point -= weight
            if point < 0:
                return item
        return list(weights)[-1]
