"""What the device decides: how linear maps of one input are computed, and the order of their weights in memory."""

from typing import Any, List

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


def launches_matter(tensor: Tensor) -> bool:
    """Return whether the CPU's launches limit the speed on the device of *tensor*."""
    return tensor.device.type != "cpu"


class Together:
    """Several linear maps of the same input; where launches matter, one product computes all of them.

    The joined matrix is a copy, which serves one pass or one search.  On a CPU, where a copy would not pay, and if one
    of the *maps* is more than its matrix, they are applied one by one.  Of *x*, only its device counts.
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


def lay_out_weights(module: nn.Module) -> None:
    """Put the matrices of all linear maps in *module* in the order in memory that their device multiplies fastest.

    On a CPU in single precision, this is column by column.  A product of few rows with a matrix that lies row by row
    takes up to twice as long there; with many rows, both take the same time (benchmarks/TRIED.md).  Elsewhere
    the order is row by row, which is torch's own.  The parameters stay the same objects, so tied ones stay tied.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            weight = part.weight.data
            by_column = weight.device.type == "cpu" and weight.dtype == torch.float32
            part.weight.data = weight.t().contiguous().t() if by_column else weight.contiguous()


def is_plain_linear(module: nn.Module) -> bool:
    """Return whether *module* computes W x + b of its own parameters, and nothing else.

    A quantised map is another class, or has a weight of another class.  Adapters, pruning and quantisation noise change
    the weight or the output by hooks, or by another ``forward``.
    """
    return (
        type(module) is nn.Linear
        and type(module.weight) is nn.Parameter
        and not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
    )
