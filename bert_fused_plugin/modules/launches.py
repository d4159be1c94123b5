"""Fewer launches on a GPU, where the host's work limits the speed; each choice by the device follows from this file."""

from typing import Any, List

import torch
from torch import Tensor
from torch.nn.functional import linear

from bert_fused_plugin.modules.weight_layout import is_plain_linear


def launches_matter(tensor: Tensor) -> bool:
    """Return whether the host's launches limit the speed on the device of *tensor*."""
    return tensor.device.type != "cpu"


class Together:
    """Several linear maps of the same input; where launches matter, one product computes all of them.

    The joined matrix is a copy, which serves one pass or one search.  On a CPU, where a copy would not pay, and if one
    of the *maps* is more than its matrix, they are applied one by one.  Their inputs are on the device of *x*.
    """

    def __init__(self, x: Tensor, *maps: Any) -> None:
        self._maps = maps
        self._is_joined = len(maps) > 1 and launches_matter(x) and all(map(is_plain_linear, maps))
        if self._is_joined:
            self._weight = torch.cat([part.weight for part in maps])
            self._bias = None if maps[0].bias is None else torch.cat([part.bias for part in maps])

    def __call__(self, x: Tensor) -> List[Tensor]:
        """Return the product of *x* with each of the maps."""
        if not self._is_joined:
            return [part(x) for part in self._maps]
        return list(linear(x, self._weight, self._bias).split([part.out_features for part in self._maps], dim=-1))

    def stacked(self, x: Tensor) -> Tensor:
        """Return the products of *x*, (..., D), with maps to the same width, as one tensor, (maps, ..., C)."""
        if not self._is_joined:
            return torch.stack([part(x) for part in self._maps])
        return linear(x, self._weight, self._bias).unflatten(-1, (len(self._maps), -1)).movedim(-2, 0)
