"""Cross entropy with label smoothing, and its gradient in one buffer."""

from typing import Any, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def label_smoothed_loss(logits: Tensor, target: Tensor, eps: float, padding_idx: int) -> Tuple[Tensor, Tensor, Tensor]:
    """Return the loss, the negative log-likelihood, and whether no symbol is likelier than the target, each (B, T).

    The loss L = (1 - eps) H(p, q) + eps H(U, q) of a position is -(1 - eps) log q_target - eps mean(log q).  It is
    computed in single precision at least, and is zero at padded positions.  Only the loss has a gradient, and it can
    be computed once: the log-probabilities, the one tensor of the logits' size that is kept, become the gradient in
    place.

    Args:
        logits: scores of all symbols, (B, T, V).
        target: target symbols, (B, T).
        eps: weight of the uniform distribution.
        padding_idx: target symbol to exclude.
    """
    loss, nll_loss, correct = _SmoothedLoss.apply(logits, target, eps, padding_idx)
    return loss, nll_loss, correct


class _SmoothedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, eps: float, padding_idx: int) -> Tuple[Tensor, ...]:
        log_q = F.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        of_target = log_q.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        is_token = target.ne(padding_idx)
        nll_loss = -of_target * is_token
        loss = (1 - eps) * nll_loss
        if eps:
            loss -= eps * log_q.mean(dim=-1) * is_token
        correct = of_target.eq(log_q.amax(dim=-1)) & is_token  # argmax takes seven times as long
        ctx.save_for_backward(log_q, target, is_token)
        ctx.eps, ctx.dtype = eps, logits.dtype
        ctx.mark_non_differentiable(nll_loss, correct)
        return loss, nll_loss, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, *_: Tensor) -> Tuple[Tensor, None, None, None]:
        """dL/dlogits = q - (1 - eps) onehot(target) - eps / V."""
        log_q, target, is_token = ctx.saved_tensors
        grad = log_q.exp_()
        grad.scatter_add_(-1, target.unsqueeze(-1), grad.new_full((*target.shape, 1), ctx.eps - 1))
        if ctx.eps:
            grad.sub_(ctx.eps / grad.size(-1))
        grad.mul_((grad_loss * is_token).unsqueeze(-1))
        return grad.to(ctx.dtype), None, None, None
