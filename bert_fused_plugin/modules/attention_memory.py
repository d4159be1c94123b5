"""The states that a recurrent decoder attends to, and how their weighted sums are computed in a step."""

from typing import Dict, NamedTuple, Optional

import torch
from torch import Tensor

from bert_fused_plugin.modules.recurrent_attention import RecurrentAttention


class ProjectedMemory(NamedTuple):
    """The states that the decoder attends to, in all the projections that it needs; made once for a sentence.

    A context is a weighted sum of annotations, c_i = sum_j alpha_ij h_j.  Therefore a product with the context is the
    same weighted sum of products with the annotations: C c_i = sum_j alpha_ij (C h_j).
    """

    keys: Tensor  # U_a h, (B, S, A)
    gate_values: Tensor  # C h for the three gates, (B, S, 3n), or (B, S, 0) where no context enters the gates
    output_values: Tensor  # C_o h, (B, S, 2l)
    padding_mask: Tensor  # (B, S)


class WeightedMemory(NamedTuple):
    """A memory that this pass reads, with its attention and its weight in the context."""

    attention: Optional[RecurrentAttention]  # None: the memory has one position, the encoder's summary
    memory: ProjectedMemory
    weight: float


def attention_weights(memories: Dict[str, WeightedMemory], queries: Tensor, coverage: Tensor) -> Dict[str, Tensor]:
    """Return alpha, (B, 1, S), for each memory.

    Args:
        memories: the memories that this pass reads.
        queries: the projected queries of the memories with an attention, side by side, (B, number of memories x A).
        coverage: the sum of alpha over the steps before, (B, S); (B, 0) where no attention reads it.
    """
    alphas = {}
    with_attention = sum(memory.attention is not None for memory in memories.values())
    remaining_queries = iter(queries.chunk(max(1, with_attention), dim=-1))
    for name, (attention, memory, _) in memories.items():
        rows, sentences = len(queries), len(memory.keys)
        if attention is None:
            alphas[name] = queries.new_ones(rows, 1, 1)
            continue
        # the beams of a sentence are further queries to the same keys: (B, A) -> (sentences, beams, A)
        query = next(remaining_queries).reshape(sentences, rows // sentences, -1)
        covered = coverage.view(sentences, rows // sentences, coverage.size(-1))
        alphas[name] = attention(query, memory.keys, memory.padding_mask, covered).view(rows, 1, -1)
    return alphas


def projected_context(memories: Dict[str, WeightedMemory], alphas: Dict[str, Tensor], values: str) -> Tensor:
    """Return C c_i for each row and step, (B, T, D).

    Args:
        memories: the memories that this pass reads.
        alphas: the weights of the positions, (B, T, S), for each memory.
        values: the name of the field of `ProjectedMemory` that holds C h.
    """
    sums = [_weighted_sum(alphas[name], getattr(memory.memory, values)) for name, memory in memories.items()]
    first, *others = [
        part if memory.weight == 1 else memory.weight * part for part, memory in zip(sums, memories.values())
    ]
    return first + others[0] if others else first


def _weighted_sum(alpha: Tensor, values: Tensor) -> Tensor:
    """Return sum_j alpha_ij v_j, (B, T, D), from *alpha*, (B, T, S), and *values*, (sentences, S, D)."""
    rows, steps, length = alpha.shape
    return torch.bmm(alpha.view(len(values), -1, length), values).view(rows, steps, -1)
