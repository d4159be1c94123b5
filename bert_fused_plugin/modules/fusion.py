"""How a layer joins its NMT branch and BERT's branch."""

from typing import Any, Callable, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.drop_net import DropNet


class ParallelFusion(nn.Module):
    """The mean of both branches (Zhu et al. 2020, section 4.1, steps 2 and 3), under drop-net in training.

    A branch that drop-net gave weight zero is not computed.

    Args:
        p_net: drop-net's rate.
        weights: of (other, BERT) where both are used.
    """

    def __init__(self, p_net: float, weights: Tuple[float, float] = (0.5, 0.5)) -> None:
        super().__init__()
        self.drop_net = DropNet(p_net, weights)

    def forward(
        self,
        other: Callable[[], Tensor],
        bert: Callable[[], Tensor],
        *,
        other_module: nn.Module,
        bert_module: nn.Module,
    ) -> Tensor:
        """Return w_other * other() + w_bert * bert(), (T, B, C).

        Args:
            other: computes the NMT branch, (T, B, C).
            bert: computes BERT's branch, (T, B, C).
            other_module: what the NMT branch trains; gets zeros as gradient where the branch is left out.
            bert_module: the same for BERT's branch.
        """
        w_other, w_bert = self.drop_net()
        if w_bert == 0:
            return _with_zero_gradients(w_other * other(), bert_module)
        if w_other == 0:
            return _with_zero_gradients(w_bert * bert(), other_module)
        return w_other * other() + w_bert * bert()


def _with_zero_gradients(x: Tensor, module: nn.Module) -> Tensor:
    """Return *x*; in the backward pass the parameters of *module* get zeros, as if they had been used times zero.

    DDP needs a gradient for each parameter in each step, and Adam moves a parameter by its momentum even then.
    """
    result: Tensor = _ZeroGradients.apply(x, *module.parameters())
    return result


class _ZeroGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(*parameters)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, ...]:
        return (*gradients, *map(torch.zeros_like, ctx.saved_tensors))
