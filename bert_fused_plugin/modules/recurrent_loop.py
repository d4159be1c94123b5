"""The loop of the recurrent decoder over its steps, and the memories, which are what it attends to."""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from bert_fused_plugin.modules.device_choices import launches_matter
from bert_fused_plugin.modules.recurrent_attention import AdditiveAttention, DotAttention, RecurrentAttention
from bert_fused_plugin.modules.recurrent_function import RecurrentFunction
from bert_fused_plugin.modules.recurrent_unit import ConditionalGru


class ProjectedMemory(NamedTuple):
    """States that this pass attends to, in all the projections that it needs; made once for a sentence.

    A context is a weighted sum of annotations, c_i = sum_j alpha_ij h_j.  Therefore a product with the context is the
    same weighted sum of products with the annotations: C c_i = sum_j alpha_ij (C h_j).
    """

    attention: Optional[RecurrentAttention]  # None: the memory has one position, the encoder's summary
    weight: float  # of the memory in the context
    keys: Tensor  # U_a h, (B, S, A)
    gate_values: Tensor  # C h for the three gates, (B, S, 3n)
    output_values: Tensor  # C_o h, (B, S, 2l)
    padding_mask: Tensor  # (B, S)


def add_context(x: Tensor, memories: Dict[str, ProjectedMemory], alphas: Dict[str, Tensor], values: str) -> Tensor:
    """Return *x*, (B, T, D), plus C c_i for each row and step, from the weights *alphas* of each memory, (B, T, S).

    The field *values* of a `ProjectedMemory` holds C h.
    """
    for name, memory in memories.items():
        # a memory belongs to all beams of its sentence
        products = getattr(memory, values)
        sentences, length, width = products.shape
        alpha = alphas[name].view(sentences, -1, length)
        x = torch.baddbmm(x.reshape(sentences, -1, width), alpha, products, alpha=memory.weight).view_as(x)
    return x


def state_weights(cell: ConditionalGru, memories: Dict[str, ProjectedMemory]) -> Tensor:
    """Return each W_a, U_z and U_r as one matrix, because each step needs their products with the state."""
    queries = [m.attention.query_proj.weight for m in memories.values() if m.attention is not None]
    return torch.cat([*queries, cell.gate_proj.weight])


def recurrent_loop(
    cell: ConditionalGru, inputs: Tensor, state: Tensor, memories: Dict[str, ProjectedMemory], from_state: Tensor
) -> Tuple[Tensor, Dict[str, Tensor]]:
    """Return the states, (B, T, n), and the attention to each of the *memories*, (B, T, S).

    The *inputs* are the products W e for the gates, (B, T, 3n); *state* is that before the first step, (B, n), as the
    query of a step is the state before it; *from_state* comes from `state_weights`.
    """
    if _fits_function(inputs, memories):
        return _by_function(cell, inputs, state, memories, from_state)
    from_state = from_state.to(inputs.dtype)  # once, since autocast would do it in each step
    states, alphas = [], []
    widths = [*(memory.keys.size(-1) for memory in memories.values()), 2 * cell.hidden_dim]
    for step_inputs in inputs.unbind(1):
        *queries, gates = linear(state, from_state).split(widths, dim=1)
        alphas.append(attention_weights(memories, queries))
        step_inputs = add_context(step_inputs.unsqueeze(1), memories, alphas[-1], "gate_values").squeeze(1)
        state = cell(step_inputs, gates, state)
        states.append(state)
    if len(states) == 1:  # as in a search, where each copy would be a launch
        return state.unsqueeze(1), alphas[0]
    return torch.stack(states, dim=1), {name: torch.cat([alpha[name] for alpha in alphas], dim=1) for name in memories}


def attention_weights(memories: Dict[str, ProjectedMemory], queries: List[Tensor]) -> Dict[str, Tensor]:
    """Return alpha, (B, 1, S), for each memory from its projected query, (B, A), which is empty without attention."""
    alphas = {}
    for (name, memory), query in zip(memories.items(), queries):
        rows = len(query)
        if memory.attention is None:
            alphas[name] = query.new_ones(rows, 1, 1)
        else:
            # the beams of a sentence are further queries to the same keys: (B, A) -> (sentences, beams, A)
            query = query.reshape(len(memory.keys), rows // len(memory.keys), -1)
            alphas[name] = memory.attention(query, memory.keys, memory.padding_mask).view(rows, 1, -1)
    return alphas


def _fits_function(inputs: Tensor, memories: Dict[str, ProjectedMemory]) -> bool:
    return (
        launches_matter(inputs)
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled()
        and all(
            isinstance(memory.attention, (AdditiveAttention, DotAttention))
            and memory.attention.attention_map is None
            and len(memory.keys) == len(inputs)
            for memory in memories.values()
        )
    )


def _by_function(
    cell: ConditionalGru, inputs: Tensor, state: Tensor, memories: Dict[str, ProjectedMemory], from_state: Tensor
) -> Tuple[Tensor, Dict[str, Tensor]]:
    parts: List[Optional[Tensor]] = []
    for memory in memories.values():
        bias = torch.zeros_like(memory.padding_mask, dtype=inputs.dtype).masked_fill_(memory.padding_mask, -torch.inf)
        v = memory.attention.v if isinstance(memory.attention, AdditiveAttention) else None
        parts += [memory.keys, memory.gate_values, bias, v]
    weights = [memory.weight for memory in memories.values()]
    states, *alphas = RecurrentFunction.apply(weights, inputs, state, from_state, cell.candidate_proj.weight, *parts)
    return states.transpose(0, 1), dict(zip(memories, (alpha.transpose(0, 1) for alpha in alphas)))
