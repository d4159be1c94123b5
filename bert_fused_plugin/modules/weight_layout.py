"""Linear maps: the order of their weights in memory, and whether products with their weights may replace them."""

import torch
from torch import nn


def lay_out_weights(module: nn.Module) -> None:
    """Put the matrices of all linear maps in *module* in the order in memory that their device multiplies fastest.

    On a CPU in single precision, this is column by column.  A product of few rows with a matrix that lies row by row
    takes up to twice as long there; with many rows, both take the same time (benchmarks/TRIED.md).  Elsewhere
    the order is row by row, which is torch's own.  No value changes, and no memory is needed beyond one matrix.  The
    parameters stay the same objects, so tied ones stay tied.
    """
    for linear in module.modules():
        if isinstance(linear, nn.Linear):
            weight = linear.weight.data
            by_column = weight.device.type == "cpu" and weight.dtype == torch.float32
            linear.weight.data = weight.t().contiguous().t() if by_column else weight.contiguous()


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
