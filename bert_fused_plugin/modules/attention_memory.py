"""What a recurrent decoder attends to, and how it is read in one step."""

from typing import Any, Dict, NamedTuple

import torch
from torch import Tensor


class Memory(NamedTuple):
    """What the decoder attends to, projected once for a sentence.

    A context is a weighted sum of annotations, c_i = sum_j alpha_ij h_j, so any product with it is the same sum of
    products with h_j: C c_i = sum_j alpha_ij (C h_j).
    """

    keys: Tensor  # U_a h, (B, S, A)
    to_gates: Tensor  # C h of the three gates, (B, S, 3n), or (B, S, 0) where no context enters them
    to_output: Tensor  # C_o h, (B, S, 2l)
    padding_mask: Tensor  # (B, S)


class Read(NamedTuple):
    """A memory that is read in this pass, how, and its weight in the context."""

    attention: Any  # None: one constant, the encoder's summary
    memory: Memory
    weight: float


def attend(reads: Dict[str, Read], queries: Tensor, coverage: Tensor) -> Dict[str, Tensor]:
    """Return alpha, (B, 1, S), of each memory; *queries*, (B, A), stand side by side for those with attention."""
    alphas = {}
    rest = iter(queries.chunk(max(1, sum(read.attention is not None for read in reads.values())), dim=-1))
    for name, (attention, memory, _) in reads.items():
        rows, sentences = len(queries), len(memory.keys)
        if attention is None:
            alphas[name] = queries.new_ones(rows, 1, 1)
            continue
        by_beam = (sentences, rows // sentences, -1)
        alpha = attention(next(rest).reshape(by_beam), memory.keys, memory.padding_mask, coverage.view(by_beam))
        alphas[name] = alpha.view(rows, 1, -1)
    return alphas


def weighted(reads: Dict[str, Read], alphas: Dict[str, Tensor], product: str) -> Tensor:
    """Return C c_i for each row and step, (B, T, D), where *product* names the C h_j of the memories."""
    parts = [read.weight * _weighted_sum(alphas[name], getattr(read.memory, product)) for name, read in reads.items()]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _weighted_sum(alpha: Tensor, values: Tensor) -> Tensor:
    """Return sum_j alpha_ij v_j, (B, T, D), of *alpha*, (B, T, S), and the values of a sentence, (sentences, S, D)."""
    rows, steps, length = alpha.shape
    return torch.bmm(alpha.view(len(values), -1, length), values).view(rows, steps, -1)
