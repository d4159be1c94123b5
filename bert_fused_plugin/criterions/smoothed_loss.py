"""Cross entropy with label smoothing, and its gradient in one buffer."""

from typing import Any, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def label_smoothed_loss(logits: Tensor, target: Tensor, eps: float, padding_idx: int) -> Tuple[Tensor, Tensor, Tensor]:
    """Return the loss, the negative log-likelihood, and whether no symbol is likelier than the target, each (B, T).

    The loss L = (1 - eps) H(p, q) + eps H(U, q) of a position is -(1 - eps) log q_target - eps mean(log q).  It is
    computed in single precision at least, and is zero at padded positions.  Only the loss has a gradient.  It is
    computed with the loss, is the one tensor of the logits' size that is kept, and can be used once.

    Args:
        logits: scores of all symbols, (B, T, V).
        target: target symbols, (B, T).
        eps: weight of the uniform distribution.
        padding_idx: target symbol to exclude.
    """
    loss, nll_loss, correct = _SmoothedLoss.apply(logits, target, eps, padding_idx)
    return loss, nll_loss, correct


def to_gradient(scores: Tensor, target: Tensor, eps: float, is_token: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return what `label_smoothed_loss` returns, (...), and turn *scores*, in place, into the gradient of the loss.

    dL/dscores = q - (1 - eps) onehot(target) - eps / V.

    Args:
        scores: scores of all symbols, in single precision at least, (..., V).
        target: target symbols, (...).
        eps: weight of the uniform distribution.
        is_token: False at padded positions, whose loss and gradient are zero, (...).
    """
    scores.sub_(scores.amax(dim=-1, keepdim=True))
    of_target, mean = scores.gather(-1, target.unsqueeze(-1)).squeeze(-1), scores.mean(dim=-1)
    total = scores.exp_().sum(dim=-1)
    nll_loss = total.log() - of_target
    loss = nll_loss - eps * (mean - of_target)
    mask = is_token.to(scores.dtype)
    scores.mul_((mask / total).unsqueeze(-1))
    scores.scatter_add_(-1, target.unsqueeze(-1), ((eps - 1) * mask).unsqueeze(-1))
    if eps:
        scores.sub_((eps / scores.size(-1) * mask).unsqueeze(-1))
    return loss * mask, nll_loss * mask, of_target.eq(0) & is_token


class _SmoothedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, eps: float, padding_idx: int) -> Tuple[Tensor, ...]:
        scores = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
        loss, nll_loss, correct = to_gradient(scores, target, eps, target.ne(padding_idx))
        ctx.save_for_backward(scores)
        ctx.dtype = logits.dtype
        ctx.mark_non_differentiable(nll_loss, correct)
        return loss, nll_loss, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, *_: Tensor) -> Tuple[Tensor, None, None, None]:
        (grad,) = ctx.saved_tensors
        return grad.mul_(grad_loss.unsqueeze(-1)).to(ctx.dtype), None, None, None
