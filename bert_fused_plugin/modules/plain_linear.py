"""Whether a linear map may be replaced by products with its weight."""

from torch import nn


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
