"""The output matrix and the smoothed cross entropy as one function, which never holds the scores of all positions."""

import inspect
from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.parallel import DistributedDataParallel

from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss, to_gradient
from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder
from bert_fused_plugin.modules.plain_linear import is_plain_linear

# scores that are computed together, unless the width of the features, C, is a larger number of positions: each part
# reads the whole matrix and adds to its gradient, which costs more than the scores of few positions
_CPU_SCORES = 2**21  # few enough for the cache
_GPU_SCORES = 2**26  # 256 MiB in single precision, which was not tuned
_KNOWN = (TransformerDecoderBase.output_layer, GruDecoder.output_layer)  # those that only apply `output_projection`


def output_matrix(model: nn.Module) -> Optional[Tensor]:
    """Return the matrix, (V, C), that makes scores of what *model* returns with ``features_only``.

    Returns None for a model that computes its scores in another way, and where they have to be there as a whole: in
    half precision, whose range is too small for gradients before fairseq scales the loss, and under wrappers that
    look for parameters without a gradient or that spread parameters over processes.
    """
    while isinstance(model, (ModuleProxyWrapper, LegacyDistributedDataParallel, DistributedDataParallel)):
        if isinstance(model, DistributedDataParallel) and model.find_unused_parameters:
            return None
        model = model.module
    if not isinstance(model, FairseqEncoderDecoderModel):
        return None
    decoder = model.decoder
    if not isinstance(decoder, (TransformerDecoderBase, GruDecoder)) or type(decoder).output_layer not in _KNOWN:
        return None
    projection = decoder.output_projection
    # None with an adaptive softmax
    if projection is None or not is_plain_linear(projection) or projection.bias is not None:
        return None
    if projection.weight.dtype == torch.half or torch.is_autocast_enabled():
        return None
    return projection.weight if "features_only" in inspect.signature(model.forward).parameters else None


def projected_loss(
    features: Tensor, matrix: Tensor, target: Tensor, eps: float, padding_idx: int
) -> Tuple[Tensor, Tensor, Tensor]:
    """Return the sums of what `label_smoothed_loss` returns for the scores ``features @ matrix.T``.

    The scores are computed for some positions at a time, and become their own gradient at once, so that they stay in
    the cache of a CPU and take memory for these positions only.  The gradients of the features and of the matrix wait
    for the backward pass, which can be computed once.

    Args:
        features: what the output matrix is applied to, (B, T, C).
        matrix: the output matrix, (V, C).
        target: target symbols, (B, T).
        eps: weight of the uniform distribution.
        padding_idx: target symbol to exclude.
    """
    if features.dtype != matrix.dtype:  # torch.autocast on a CPU
        sums = label_smoothed_loss(F.linear(features, matrix), target, eps, padding_idx)
        return sums[0].sum(), sums[1].sum(), sums[2].sum()
    learns = torch.is_grad_enabled() and (features.requires_grad or matrix.requires_grad)
    loss, nll_loss, correct = _ProjectedLoss.apply(features, matrix, target, eps, padding_idx, learns)
    return loss, nll_loss, correct


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
