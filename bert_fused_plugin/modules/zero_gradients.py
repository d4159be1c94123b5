"""Zeros as the gradient of what a training step leaves out."""

from typing import Any, Tuple

import torch
from torch import Tensor


def with_zero_gradients(x: Tensor, *unused: Tensor) -> Tensor:
    """Return *x*; in the backward pass the tensors *unused* get zeros, as if they had been used times zero.

    DDP needs a gradient for each parameter in each step, and Adam moves a parameter by its momentum even then.
    """
    result: Tensor = _ZeroGradients.apply(x, *unused)
    return result


class _ZeroGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *unused: Tensor) -> Tensor:
        ctx.save_for_backward(*unused)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, ...]:
        return (*gradients, *map(torch.zeros_like, ctx.saved_tensors))
