"""Zeros as gradients of what a pass leaves out, by drop-net or by LayerDrop.

DDP needs a gradient for each parameter in each step, and Adam moves a parameter by its momentum even then.
"""

from typing import Any, List, Tuple

import torch
from torch import Tensor, nn


def with_zero_gradients(x: Tensor, *unused: Tensor) -> Tensor:
    """Return *x*; in the backward pass the tensors *unused* get zeros, as if they had been used times zero."""
    return _ZeroGradients.apply(x, *unused)


def after_layer_drop(x: Tensor, layers: nn.ModuleList) -> Tuple[Tensor, List[Any]]:
    """Return *x* and those *layers* that LayerDrop leaves in (Fan et al. 2020); the others get zero gradients."""
    chosen = list(layers)  # fairseq's list of layers draws them
    if len(chosen) < len(layers):
        dropped = [layer for layer in layers.children() if layer not in chosen]
        x = with_zero_gradients(x, *nn.ModuleList(dropped).parameters())
    return x, chosen


class _ZeroGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *unused: Tensor) -> Tensor:
        ctx.shapes = [tensor.shape for tensor in unused]
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, ...]:
        # parts of one tensor, because each tensor is a launch on a GPU
        sizes = [shape.numel() for shape in ctx.shapes]
        zeros = gradients[0].new_zeros(sum(sizes)).split(sizes)
        return (*gradients, *(part.view(shape) for part, shape in zip(zeros, ctx.shapes)))
