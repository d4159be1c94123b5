"""Cross entropy with label smoothing, the divergence of two readings, and their gradient in one buffer.

With the output matrix, it is one function that never holds the scores of all positions.
"""

from functools import partial
from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# scores that are computed together, unless the width of the features, C, is a larger number of positions: each part
# reads the whole matrix and adds to its gradient, which costs more than the scores of few positions
_CPU_SCORES = 2**21  # few enough for the cache
_GPU_SCORES = 2**26  # 256 MiB in single precision, which was not tuned; also where all scores are given


class Agreement(NamedTuple):
    """The loss of a batch that was read twice, of which p and q are the distributions of a target symbol.

    L = w_p CE(p) + w_q CE(q) + alpha (w_p KL(p || q) + w_q KL(q || p)).
    """

    alpha: float
    weights: Tuple[float, float]  # w_p and w_q


def label_smoothed_loss(
    logits: Tensor, target: Tensor, eps: float, padding_idx: int, agreement: Optional[Agreement] = None
) -> Tuple[Tensor, ...]:
    """Return the loss, the negative log-likelihood, and whether no symbol is likelier than the target, each (B, T).

    The loss L = (1 - eps) H(p, q) + eps H(U, q) of a position is -(1 - eps) log q_target - eps mean(log q).  It is
    computed in single precision at least, and is zero at padded positions.  Only the loss has a gradient.  It is
    computed with the loss, is the one tensor of the logits' size that is kept, and can be used once.

    With an *agreement* the loss is that of two readings, the second and third value are those of the first reading,
    and a fourth one is the weighted divergence, without alpha.

    Args:
        logits: scores of all symbols, (B, T, V), or of two readings, (B, T, 2, V).
        target: target symbols, (B, T).
        eps: weight of the uniform distribution.
        padding_idx: target symbol to exclude.
        agreement: the loss of two readings.
    """
    return _SmoothedLoss.apply(logits, target, eps, padding_idx, agreement)


def projected_loss(
    features: Tensor,
    matrix: Tensor,
    target: Tensor,
    eps: float,
    padding_idx: int,
    agreement: Optional[Agreement] = None,
) -> Tuple[Tensor, ...]:
    """Return the sums of what `label_smoothed_loss` returns for the scores ``features @ matrix.T``.

    The scores are computed for some positions at a time, and become their own gradient at once, so that they stay in
    the cache of a CPU and take memory for these positions only.  The gradients of the features, (B, T, C), or of two
    readings, (B, T, 2, C), and of the output matrix, (V, C), wait for the backward pass, which can be computed once.
    """
    learns = torch.is_grad_enabled() and (features.requires_grad or matrix.requires_grad)
    objective = partial(to_gradient, eps=eps, agreement=agreement)
    return _ProjectedLoss.apply(features, matrix, target, padding_idx, objective, learns)


def to_gradient(
    scores: Tensor, target: Tensor, eps: float, is_token: Tensor, agreement: Optional[Agreement] = None
) -> Tuple[Tensor, ...]:
    """Return what `label_smoothed_loss` returns, (...), and turn *scores*, in place, into the gradient of the loss.

    dL/dscores = q - (1 - eps) onehot(target) - eps / V, and zero at padded positions, where *is_token* is False.
    The *scores* are (..., V), or (..., 2, V) for two readings, in single precision at least; the *target* is (...).
    """
    if agreement is not None:
        return _to_gradient_of_two(scores, target, eps, is_token, agreement)
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


def _to_gradient_of_two(
    scores: Tensor, target: Tensor, eps: float, is_token: Tensor, agreement: Agreement
) -> Tuple[Tensor, ...]:
    """Turn the *scores* of two readings into the gradient of their losses and of how far they disagree.

    dKL(p || q) / dscores of p = p (log p - log q - KL(p || q)), and / dscores of q = q - p.
    """
    logs = torch.log_softmax(scores, -1, out=scores)
    (log_p, log_q), (p, q) = logs.unbind(-2), logs.exp().unbind(-2)
    alpha, (w_p, w_q) = agreement
    ratio, gap, symbols = log_p - log_q, p - q, target.unsqueeze(-1)
    nll_loss = -log_p.gather(-1, symbols).squeeze(-1)
    correct = nll_loss.eq(-log_p.amax(-1)) & is_token
    loss, divergence = torch.zeros_like(nll_loss), torch.zeros_like(nll_loss)
    for log, prob, w, w_other, sign in ((log_p, p, w_p, w_q, 1), (log_q, q, w_q, w_p, -1)):
        if w == 0:
            torch.mul(gap, sign * alpha * w_other, out=log)
            continue
        kl = sign * (prob * ratio).sum(-1)
        divergence += w * kl
        loss += w * (alpha * kl - (1 - eps) * log.gather(-1, symbols).squeeze(-1) - eps * log.mean(-1))
        # from here on the logarithm is overwritten by the gradient
        torch.sub(ratio, sign * kl.unsqueeze(-1), out=log).mul_(sign * alpha * w).add_(w).mul_(prob)
        log.add_(gap, alpha=sign * alpha * w_other).sub_(w * eps / log.size(-1))
        log.scatter_add_(-1, symbols, torch.full_like(kl, w * (eps - 1)).unsqueeze(-1))
    mask = is_token.to(scores.dtype)
    scores.mul_(mask[..., None, None])
    return loss * mask, nll_loss * mask, correct, divergence * mask


class _SmoothedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, target: Tensor, eps: float, padding_idx: int, agreement: Optional[Agreement]
    ) -> Tuple[Tensor, ...]:
        exact = torch.promote_types(logits.dtype, torch.float32)
        scores = logits.to(exact, copy=True, memory_format=torch.contiguous_format)
        size = max(1, _GPU_SCORES // logits.shape[2:].numel())  # the divergence needs larger buffers
        parts = zip(*(tensor.flatten(0, 1).split(size) for tensor in (scores, target, target.ne(padding_idx))))
        terms_of_parts = [to_gradient(part, symbols, eps, is_token, agreement) for part, symbols, is_token in parts]
        terms = tuple(torch.cat(term).view(target.shape) for term in zip(*terms_of_parts))
        ctx.save_for_backward(scores)
        ctx.dtype = logits.dtype
        ctx.mark_non_differentiable(*terms[1:])
        return terms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, *_: Tensor) -> Tuple[Optional[Tensor], ...]:
        (grad,) = ctx.saved_tensors
        grad_loss = grad_loss.view(grad_loss.shape + (1,) * (grad.dim() - grad_loss.dim()))
        return grad.mul_(grad_loss).to(ctx.dtype), None, None, None, None


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, matrix: Tensor, target: Tensor, padding_idx: int, objective: Any, learns: bool
    ) -> Tuple[Tensor, ...]:
        x, symbols = features.flatten(0, 1), target.reshape(-1)
        form = x.shape[1:-1]  # of the readings of a position: none or (2,)
        is_token = symbols.ne(padding_idx)
        rows, on_cpu = None, features.device.type == "cpu"
        if on_cpu:  # a GPU would make the CPU wait for their number
            rows = is_token.nonzero().squeeze(1)
            x, symbols, is_token = x[rows], symbols[rows], is_token[rows]
        grad_x = torch.empty_like(x)
        exact = torch.promote_types(x.dtype, torch.float32)
        grad_matrix = torch.zeros_like(matrix, dtype=exact) if learns and ctx.needs_input_grad[1] else None
        sums = x.new_zeros(3 + len(form), dtype=exact)
        most = (_CPU_SCORES if on_cpu else _GPU_SCORES) // form.numel() ** 2  # two readings need more buffers
        size = max(1, min(max(most // len(matrix), x.size(-1)) // form.numel(), len(x)))
        products = x.new_empty(size, *form, len(matrix))  # memory that is written again stays in the cache
        buffer = products if exact == x.dtype else torch.empty_like(products, dtype=exact)
        for start in range(0, len(x), size):
            part = slice(start, min(start + size, len(x)))
            scores, product = buffer[: part.stop - start], products[: part.stop - start]
            torch.mm(x[part].flatten(0, -2), matrix.t(), out=product.flatten(0, -2))
            if buffer is not products:
                scores.copy_(product)
            terms = objective(scores, symbols[part], is_token=is_token[part])
            sums += torch.stack([term.sum().to(exact) for term in terms])
            if not learns:
                continue
            if buffer is not products:
                product.copy_(scores)
            torch.mm(product.flatten(0, -2), matrix, out=grad_x[part].flatten(0, -2))
            if grad_matrix is None:
                continue
            if buffer is products:
                grad_matrix.addmm_(product.flatten(0, -2).t(), x[part].flatten(0, -2))
            else:  # the sum over all positions needs more digits than bfloat16 has
                grad_matrix += product.flatten(0, -2).t() @ x[part].flatten(0, -2)
        if learns:
            if rows is not None:
                grad_x = grad_x.new_zeros(target.numel(), *grad_x.shape[1:]).index_copy_(0, rows, grad_x)
            ctx.save_for_backward(grad_x, grad_matrix)
            ctx.shape, ctx.dtype = features.shape, features.dtype
        terms = sums.unbind()
        ctx.mark_non_differentiable(*terms[1:])
        return terms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, *_: Tensor) -> Tuple[Optional[Tensor], ...]:
        grad_x, grad_matrix = ctx.saved_tensors
        if grad_matrix is not None:
            grad_matrix = grad_matrix.mul_(grad_loss).to(ctx.dtype)
        return grad_x.mul_(grad_loss).view(ctx.shape), grad_matrix, None, None, None, None
