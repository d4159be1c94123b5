"""Cross entropy with label smoothing, and its gradient in one buffer.

With the output matrix, it is one function that never holds the scores of all positions.
"""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# scores that are computed together, unless the width of the features, C, is a larger number of positions: each part
# reads the whole matrix and adds to its gradient, which costs more than the scores of few positions
_CPU_SCORES = 2**21  # few enough for the cache
_GPU_SCORES = 2**26  # 256 MiB in single precision, which was not tuned


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


def projected_loss(
    features: Tensor, matrix: Tensor, target: Tensor, eps: float, padding_idx: int
) -> Tuple[Tensor, Tensor, Tensor]:
    """Return the sums of what `label_smoothed_loss` returns for the scores ``features @ matrix.T``.

    The scores are computed for some positions at a time, and become their own gradient at once, so that they stay in
    the cache of a CPU and take memory for these positions only.  The gradients of the features, (B, T, C), and of the
    output matrix, (V, C), wait for the backward pass, which can be computed once.
    """
    if features.dtype != matrix.dtype:  # torch.autocast on a CPU
        loss, nll_loss, correct = label_smoothed_loss(F.linear(features, matrix), target, eps, padding_idx)
        return loss.sum(), nll_loss.sum(), correct.sum()
    learns = torch.is_grad_enabled() and (features.requires_grad or matrix.requires_grad)
    loss, nll_loss, correct = _ProjectedLoss.apply(features, matrix, target, eps, padding_idx, learns)
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


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, matrix: Tensor, target: Tensor, eps: float, padding_idx: int, learns: bool
    ) -> Tuple[Tensor, ...]:
        x, symbols = features.reshape(-1, features.size(-1)), target.reshape(-1)
        is_token = symbols.ne(padding_idx)
        rows, on_cpu = None, features.device.type == "cpu"
        if on_cpu:  # a GPU would make the host wait for their number
            rows = is_token.nonzero().squeeze(1)
            x, symbols, is_token = x[rows], symbols[rows], is_token[rows]
        grad_x = torch.empty_like(x)
        exact = torch.promote_types(x.dtype, torch.float32)
        grad_matrix = torch.zeros_like(matrix, dtype=exact) if learns and ctx.needs_input_grad[1] else None
        sums = x.new_zeros(3, dtype=exact)
        size = max((_CPU_SCORES if on_cpu else _GPU_SCORES) // len(matrix), x.size(1))
        size = min(size, max(1, len(x)))
        products = x.new_empty(size, len(matrix))  # memory that is written again stays in the cache
        buffer = products if exact == x.dtype else torch.empty_like(products, dtype=exact)
        for start in range(0, len(x), size):
            some = slice(start, min(start + size, len(x)))
            scores, product = buffer[: some.stop - start], products[: some.stop - start]
            torch.mm(x[some], matrix.t(), out=product)
            if buffer is not products:
                scores.copy_(product)
            terms = to_gradient(scores, symbols[some], eps, is_token[some])
            sums += torch.stack([term.sum().to(exact) for term in terms])
            if not learns:
                continue
            if buffer is not products:
                product.copy_(scores)
            torch.mm(product, matrix, out=grad_x[some])
            if grad_matrix is None:
                continue
            if buffer is products:
                grad_matrix.addmm_(product.t(), x[some])
            else:  # the sum over all positions needs more digits than bfloat16 has
                grad_matrix += product.t() @ x[some]
        if learns:
            if rows is not None:
                grad_x = grad_x.new_zeros(target.numel(), grad_x.size(1)).index_copy_(0, rows, grad_x)
            ctx.save_for_backward(grad_x, grad_matrix)
            ctx.shape, ctx.dtype = features.shape, features.dtype
        loss, nll_loss, correct = sums.unbind()
        ctx.mark_non_differentiable(nll_loss, correct)
        return loss, nll_loss, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, *_: Tensor) -> Tuple[Optional[Tensor], ...]:
        grad_x, grad_matrix = ctx.saved_tensors
        if grad_matrix is not None:
            grad_matrix = grad_matrix.mul_(grad_loss).to(ctx.dtype)
        return grad_x.mul_(grad_loss).view(ctx.shape), grad_matrix, None, None, None, None
