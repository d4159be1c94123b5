"""The loop of the recurrent decoder over its steps, and the memories, which are what it attends to."""

from typing import Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from bert_fused_plugin.modules.recurrent_attention import RecurrentAttention
from bert_fused_plugin.modules.recurrent_unit import ConditionalGru


class ProjectedMemory(NamedTuple):
    """The states that the decoder attends to, in all the projections that it needs; made once for a sentence.

    A context is a weighted sum of annotations, c_i = sum_j alpha_ij h_j.  Therefore a product with the context is the
    same weighted sum of products with the annotations: C c_i = sum_j alpha_ij (C h_j).
    """

    keys: Tensor  # U_a h, (B, S, A)
    gate_values: Tensor  # C h for the three gates, (B, S, 3n)
    output_values: Tensor  # C_o h, (B, S, 2l)
    padding_mask: Tensor  # (B, S)


class WeightedMemory(NamedTuple):
    """A memory that this pass reads, with its attention and its weight in the context."""

    attention: Optional[RecurrentAttention]  # None: the memory has one position, the encoder's summary
    memory: ProjectedMemory
    weight: float


def projected_context(memories: Dict[str, WeightedMemory], alphas: Dict[str, Tensor], values: str) -> Tensor:
    """Return C c_i for each row and step, (B, T, D), from the weights *alphas* of each memory, (B, T, S).

    The field *values* of a `ProjectedMemory` holds C h.
    """
    sums = []
    for name, (_, memory, weight) in memories.items():
        # a memory belongs to all beams of its sentence
        rows, steps, length = alphas[name].shape
        products = getattr(memory, values)
        part = torch.bmm(alphas[name].view(len(products), -1, length), products).view(rows, steps, -1)
        sums.append(part if weight == 1 else weight * part)
    return sums[0] + sums[1] if len(sums) > 1 else sums[0]


def state_weights(cell: ConditionalGru, memories: Dict[str, WeightedMemory]) -> Tensor:
    """Return U_z, U_r and each W_a as one matrix, because each step needs their products with the state."""
    queries = [m.attention.query_proj.weight for m in memories.values() if m.attention is not None]
    return torch.cat([cell.gate_proj.weight, *queries])


def recurrent_loop(
    cell: ConditionalGru, inputs: Tensor, state: Tensor, memories: Dict[str, WeightedMemory], from_state: Tensor
) -> Tuple[Tensor, Dict[str, Tensor]]:
    """Return the states, (B, T, n), and the attention to each memory, (B, T, S).

    Args:
        cell: the gated recurrent unit.
        inputs: the products W e for the gates, (B, T, 3n).
        state: the state before the first step, (B, n); the query of a step is the state before it.
        memories: the memories that this pass reads.
        from_state: the value of `state_weights`.
    """
    states, alphas = [], []
    for step_inputs in inputs.unbind(1):
        projected = linear(state, from_state)
        gates, queries = projected.split([2 * cell.hidden_dim, projected.size(1) - 2 * cell.hidden_dim], dim=1)
        alphas.append(attention_weights(memories, queries))
        context = projected_context(memories, alphas[-1], "gate_values").squeeze(1)
        state = cell(step_inputs + context, gates, state)
        states.append(state)
    return torch.stack(states, dim=1), {name: torch.cat([alpha[name] for alpha in alphas], dim=1) for name in memories}


def attention_weights(memories: Dict[str, WeightedMemory], queries: Tensor) -> Dict[str, Tensor]:
    """Return alpha, (B, 1, S), for each memory.

    The *queries* of the memories with an attention stand side by side, (B, number of attentions x A).
    """
    alphas, rows = {}, len(queries)
    parts = queries.split([memory.keys.size(-1) for _, memory, _ in memories.values()], dim=-1)
    for (name, (attention, memory, _)), query in zip(memories.items(), parts):
        if attention is None:
            alphas[name] = queries.new_ones(rows, 1, 1)
        else:
            # the beams of a sentence are further queries to the same keys: (B, A) -> (sentences, beams, A)
            query = query.reshape(len(memory.keys), rows // len(memory.keys), -1)
            alphas[name] = attention(query, memory.keys, memory.padding_mask).view(rows, 1, -1)
    return alphas
