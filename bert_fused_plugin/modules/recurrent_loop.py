"""The loop of the recurrent decoder as one function, with backpropagation through time written by hand.

Autograd keeps account of each operation in each step.  It also adds up the gradients of the weights and of the memories
step by step, each as large as the weight or the memory itself.  Here the loop only keeps the gradients of the gates and
of the energies, and each weight and each memory gets its gradient by one product over all steps.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from bert_fused_plugin.modules.attention_map import FixedMap
from bert_fused_plugin.modules.attention_memory import WeightedMemory
from bert_fused_plugin.modules.attention_steps import AttentionSteps
from bert_fused_plugin.modules.conditional_gru import ConditionalGru
from bert_fused_plugin.modules.recurrent_attention import attention_steps, fixed_map, masked_weights


class _Memory(NamedTuple):
    """A memory in the loop."""

    steps: Optional[AttentionSteps]  # None: one position
    gate_values: Tensor  # (B, S, 3n)
    padding_mask: Tensor  # (B, S)
    weight: float
    attention_map: Optional[FixedMap]  # None: softmax


def fused_loop(
    cell: ConditionalGru, inputs: Tensor, state: Tensor, memories: Dict[str, WeightedMemory]
) -> Optional[Tuple[Tensor, Dict[str, Tensor]]]:
    """Return the states, (B, T, n), and the attention to each memory, (B, T, S), if this function can compute them.

    It cannot for beams, for an attention with coverage or with a learned map, and where autocast chooses number
    formats step by step.

    Args:
        cell: the gated recurrent unit.
        inputs: the products W e for the gates, (B, T, 3n).
        state: the state before the first step, (B, n); the query of a step is the state before it.
        memories: the memories that this pass reads.
    """
    parts, queries = [], []
    for attention, memory, weight in memories.values():
        steps, attention_map = None, None
        if attention is not None:
            steps = attention_steps(attention, memory.keys)
            if steps is None:
                return None
            queries.append(attention.query_proj.weight)
            attention_map = fixed_map(attention)
        parts.append(_Memory(steps, memory.gate_values, memory.padding_mask, weight, attention_map))
    from_state = torch.cat([cell.gate_proj.weight, *queries])
    tensors = [part.gate_values for part in parts]
    if any(len(tensor) != len(inputs) for tensor in tensors):
        return None
    if any(tensor.dtype != inputs.dtype for tensor in (from_state, state, *tensors)):
        return None
    for part in parts:
        if part.steps is not None:
            tensors += [part.steps.keys, *part.steps.vectors]
    states, *alphas = _Loop.apply(parts, inputs, state, from_state, cell.candidate_proj.weight, *tensors)
    return states.transpose(0, 1), dict(zip(memories, alphas))


class _Loop(torch.autograd.Function):
    """The states, (T, B, n), and the attention to each memory, (B, T, S).

    P = W s_{t-1} gives the products of the state for the gates z and r, and the queries.  With the sum c of the
    memories' weighted contexts, [z, r] = sigmoid(x_zr + c_zr + P_zr), s~ = tanh(x_s + c_s + U [r * s_{t-1}]) and
    s_t = s_{t-1} + z * (s~ - s_{t-1}).
    """

    @staticmethod
    def forward(
        ctx: Any,
        memories: Sequence[_Memory],
        inputs: Tensor,
        begin: Tensor,
        from_state: Tensor,
        candidate: Tensor,
        *tensors: Tensor,
    ) -> Tuple[Tensor, ...]:
        (batch, length, _), hidden = inputs.shape, begin.size(1)
        states = inputs.new_empty(1 + length, batch, hidden)
        gates = inputs.new_empty(length, batch, 3 * hidden)  # z, r and s~
        queries = inputs.new_empty(length, batch, len(from_state) - 2 * hidden)
        alphas = [inputs.new_ones(batch, length, memory.gate_values.size(1)) for memory in memories]
        states[0] = begin
        for step in range(length):
            projected, state = states[step] @ from_state.t(), states[step]
            queries[step] = projected[:, 2 * hidden :]
            gate_inputs = inputs[:, step]
            for memory, query, alpha in zip(memories, _queries(memories, queries[step]), alphas):
                if memory.steps is not None:
                    energies = memory.steps.energies(query.unsqueeze(1))
                    alpha[:, step] = masked_weights(memory.attention_map, energies, memory.padding_mask).squeeze(1)
                context = torch.bmm(alpha[:, step].unsqueeze(1), memory.gate_values).squeeze(1)
                gate_inputs = torch.add(gate_inputs, context, alpha=memory.weight)
            opening = torch.sigmoid(gate_inputs[:, : 2 * hidden] + projected[:, : 2 * hidden])
            z, r = opening.chunk(2, dim=1)
            new = torch.tanh(torch.addmm(gate_inputs[:, 2 * hidden :], r * state, candidate.t()))
            gates[step, :, : 2 * hidden], gates[step, :, 2 * hidden :] = opening, new
            states[step + 1] = torch.lerp(state, new, z)
        ctx.memories = memories
        ctx.save_for_backward(states, gates, queries, from_state, candidate, *alphas, *tensors)
        return (states[1:], *alphas)

    @staticmethod
    def backward(ctx: Any, to_states: Tensor, *to_alphas: Tensor) -> Tuple[Optional[Tensor], ...]:
        memories: Sequence[_Memory] = ctx.memories
        states, gates, queries, from_state, candidate, *others = ctx.saved_tensors
        alphas = others[: len(memories)]
        hidden = states.size(2)
        to_gates, to_queries = torch.empty_like(gates), torch.empty_like(queries)  # before sigmoid and tanh
        to_energies = [torch.empty_like(alpha) for alpha in alphas]
        carried = torch.zeros_like(states[0])
        for step in reversed(range(len(gates))):
            state, to_state = states[step], to_states[step] + carried
            z, r, new = gates[step].chunk(3, dim=1)
            to_z, to_r, to_new = to_gates[step].chunk(3, dim=1)
            torch.mul(to_state * z, 1 - new * new, out=to_new)
            to_reset = to_new @ candidate
            torch.mul(to_state * (new - state), z * (1 - z), out=to_z)
            torch.mul(to_reset * state, r * (1 - r), out=to_r)
            parts = zip(memories, *(_queries(memories, q[step]) for q in (queries, to_queries)))
            for i, (memory, query, to_query) in enumerate(parts):
                if memory.steps is None:
                    continue
                to_alpha = torch.bmm(memory.gate_values, to_gates[step].unsqueeze(2)).squeeze(2)
                to_alpha = torch.add(to_alphas[i][:, step], to_alpha, alpha=memory.weight)
                to_energies[i][:, step] = _through_map(memory.attention_map, alphas[i][:, step], to_alpha)
                to_query.copy_(memory.steps.backward(query.unsqueeze(1), to_energies[i][:, step : step + 1]).squeeze(1))
            carried = to_state * (1 - z) + to_reset * r
            carried.addmm_(to_gates[step, :, : 2 * hidden], from_state[: 2 * hidden])
            carried.addmm_(to_queries[step], from_state[2 * hidden :])
        before, resets = states[:-1].flatten(0, 1), gates[..., hidden : 2 * hidden].flatten(0, 1)
        flat_gates, flat_queries = to_gates.flatten(0, 1), to_queries.flatten(0, 1)
        to_from_state = torch.cat([flat_gates[:, : 2 * hidden].t() @ before, flat_queries.t() @ before])
        to_candidate = flat_gates[:, 2 * hidden :].t() @ (resets * before)
        to_inputs = to_gates.transpose(0, 1)
        to_values = [
            torch.bmm(alpha.transpose(1, 2), to_inputs).mul_(memory.weight) for memory, alpha in zip(memories, alphas)
        ]
        to_memories: List[Tensor] = []
        by_memory = _queries(memories, queries.transpose(0, 1))
        for memory, query, gradient in zip(memories, by_memory, to_energies):
            if memory.steps is not None:
                to_memories += memory.steps.gradients(query, gradient)
        return (None, to_inputs, carried, to_from_state, to_candidate, *to_values, *to_memories)


def _queries(memories: Sequence[_Memory], queries: Tensor) -> List[Tensor]:
    """Return the part of *queries*, (..., A x number of attentions), of each memory; (..., 0) without an attention."""
    parts = iter(queries.chunk(max(1, sum(memory.steps is not None for memory in memories)), dim=-1))
    return [queries[..., :0] if memory.steps is None else next(parts) for memory in memories]


def _through_map(attention_map: Optional[FixedMap], alpha: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of the energies of a map, in fp32 as the map itself; None is softmax."""
    dtype = torch.promote_types(alpha.dtype, torch.float32)
    if attention_map is not None:
        return attention_map.backward(alpha.to(dtype), gradient.to(dtype)).to(alpha.dtype)
    weighted = alpha.to(dtype) * gradient.to(dtype)
    return torch.sub(weighted, alpha.to(dtype) * weighted.sum(dim=-1, keepdim=True)).to(alpha.dtype)
