"""How sparse the attention of each head is: the share of exact zeros, the symbols with a weight, and the entropy."""

from typing import Any, ContextManager, Dict, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from bert_fused_plugin.reports.recording import recorded
from bert_fused_plugin.reports.words import Words


class Sparsity(NamedTuple):
    """The means over target positions, for each head of a layer.

    Args:
        zeros: the share of the symbols that may be attended to whose weight is exactly zero.
        attended: the number of symbols whose weight is not zero.
        bits: the entropy of the weights, in bits.
    """

    zeros: List[float]
    attended: List[float]
    bits: List[float]

    def has_zeros(self) -> bool:
        """Return whether some head has weights that are exactly zero."""
        return any(share > 0 for share in self.zeros)


def sparsity_sums(weights: Tensor, sizes: Tensor, written: Tensor) -> Tensor:
    """Return the sums over all *written* positions of what `Sparsity` has the means of, and of ones, (4, H).

    Args:
        weights: the weights of each head, (H, B, T, S).
        sizes: the number of symbols that may be attended to, (B).
        written: the target positions that count, (B, T).
    """
    weights, most = weights.float().cpu(), sizes.cpu().clamp(min=1).view(1, -1, 1)
    attended = weights.gt(0).sum(dim=-1)
    bits = torch.special.entr(weights).sum(dim=-1) / torch.log(torch.tensor(2.0))
    parts = torch.stack([1 - attended / most, attended.float(), bits, torch.ones_like(bits)])  # (4, H, B, T)
    return parts.masked_fill(~written.cpu(), 0).double().sum(dim=(2, 3))


def mean_sparsity(sums: Tensor) -> Sparsity:
    """Return the means, from the sums of `sparsity_sums`."""
    return Sparsity(*(sums[:3] / sums[3]).tolist())


def word_sums(weights: Tensor, kept: Tensor, written: Tensor, sources: Sequence[Words]) -> Tensor:
    """Return the number of source words with a weight, summed over all *written* positions, and that of positions, (2).

    Args:
        weights: the mean weights of the heads, (B, T, S); a word has a weight if some head gives it one.
        kept: the source symbols that are no padding, (B, S).
        written: the target positions that count, (B, T).
        sources: the words of each source.
    """
    total = torch.zeros(2, dtype=torch.double)
    rows = zip(weights.cpu().gt(0), kept.cpu(), written.cpu(), sources)
    for has_weight, is_symbol, is_written, words in rows:
        symbols = has_weight[is_written][:, is_symbol]
        attended = torch.stack([symbols[:, positions].any(dim=1) for positions in words.positions])
        total += torch.tensor([int(attended.sum()), attended.size(1)])
    return total


def recorded_heads(model: Any) -> ContextManager[Dict[str, Tensor]]:
    """Record the weights of each head, (H, B, T, S), of the attentions that return them in a pass.

    The keys are the names of the attentions in the decoder, such as ``layers.0.encoder_attn``.
    """
    modules = model.decoder.named_modules()
    attentions = [(name, module) for name, module in modules if name.endswith((".encoder_attn", ".bert_attn"))]
    return recorded(attentions, lambda module, inputs, output: output[1])


def described(kind: str, number: int, layer: Optional[Sparsity]) -> str:
    """Return a line about the attention to *kind* of the decoder's layer *number*, counted from 0."""
    if layer is None:
        return f"{kind}, layer {number + 1}: -"
    zeros = " ".join(f"{share:.0%}" for share in layer.zeros)
    mean = sum(layer.attended) / len(layer.attended)
    return f"{kind}, layer {number + 1}: {zeros} by head; {mean:.1f} symbols attended to"
