"""The loop of the recurrent decoder over its steps, and the memories, which are what it attends to.

`recurrent_loop` is the plain loop, for the search and for what autograd must follow.  `fused_loop` is the same as one
function, with backpropagation through time written by hand.  Autograd keeps account of each operation in each step.  It
also adds up the gradients of the weights and of the memories step by step, each as large as the weight or the memory
itself.  The fused loop only keeps the gradients of the gates and of the energies, and each weight and each memory gets
its gradient by one product over all steps.
"""

from typing import Any, Collection, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from bert_fused_plugin.modules.attention_map import LearnedEntmax
from bert_fused_plugin.modules.recurrent_attention import AttentionSteps, RecurrentAttention
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


States = Tuple[Tensor, Dict[str, Tensor]]


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
) -> States:
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
    for (name, (attention, memory, _)), query in zip(memories.items(), _by_memory(memories.values(), queries)):
        if attention is None:
            alphas[name] = queries.new_ones(rows, 1, 1)
        else:
            # the beams of a sentence are further queries to the same keys: (B, A) -> (sentences, beams, A)
            query = query.reshape(len(memory.keys), rows // len(memory.keys), -1)
            alphas[name] = attention(query, memory.keys, memory.padding_mask).view(rows, 1, -1)
    return alphas


def _by_memory(memories: Collection[WeightedMemory], queries: Tensor) -> List[Tensor]:
    """Return the part of *queries*, (..., A x number of attentions), of each memory; (..., 0) without an attention."""
    return list(queries.split([memory.keys.size(-1) for _, memory, _ in memories], dim=-1))


def fused_loop(
    cell: ConditionalGru, inputs: Tensor, state: Tensor, memories: Dict[str, WeightedMemory], from_state: Tensor
) -> Optional[States]:
    """Return the value of `recurrent_loop`, if this function can compute it; the arguments are the same.

    It cannot where autocast chooses number formats step by step, for beams, for a map that is learned, and for an
    attention without gradients written by hand.
    """
    read = list(memories.values())
    gate_values = [memory.gate_values for _, memory, _ in read]
    if from_state.dtype != inputs.dtype or any(len(values) != len(inputs) for values in gate_values):
        return None
    of_memories = [None if attention is None else attention.steps(memory.keys) for attention, memory, _ in read]
    for (attention, _, _), steps in zip(read, of_memories):
        if attention is not None and (steps is None or isinstance(attention.attention_map, LearnedEntmax)):
            return None
    tensors = [tensor for steps in of_memories if steps is not None for tensor in (steps.keys, *steps.vectors)]
    weights = (from_state, cell.candidate_proj.weight)
    states, *alphas = _Loop.apply(read, of_memories, inputs, state, *weights, *gate_values, *tensors)
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
        memories: List[WeightedMemory],
        of_memories: List[Optional[AttentionSteps]],
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
        alphas = [inputs.new_ones(batch, length, memory.gate_values.size(1)) for _, memory, _ in memories]
        states[0] = begin
        for step in range(length):
            projected, state = states[step] @ from_state.t(), states[step]
            queries[step] = projected[:, 2 * hidden :]
            gate_inputs = inputs[:, step]
            parts = zip(memories, of_memories, _by_memory(memories, queries[step]), alphas)
            for (attention, memory, weight), steps, query, alpha in parts:
                if attention is not None and steps is not None:
                    energies = steps.energies(query.unsqueeze(1))
                    alpha[:, step] = attention.weights(energies, memory.padding_mask).squeeze(1)
                context = torch.bmm(alpha[:, step].unsqueeze(1), memory.gate_values).squeeze(1)
                gate_inputs = torch.add(gate_inputs, context, alpha=weight)
            opening = torch.sigmoid(gate_inputs[:, : 2 * hidden] + projected[:, : 2 * hidden])
            z, r = opening.chunk(2, dim=1)
            new = torch.tanh(torch.addmm(gate_inputs[:, 2 * hidden :], r * state, candidate.t()))
            gates[step, :, : 2 * hidden], gates[step, :, 2 * hidden :] = opening, new
            states[step + 1] = torch.lerp(state, new, z)
        ctx.memories, ctx.of_memories = memories, of_memories
        ctx.save_for_backward(states, gates, queries, from_state, candidate, *alphas, *tensors)
        return (states[1:], *alphas)

    @staticmethod
    def backward(ctx: Any, to_states: Tensor, *to_alphas: Tensor) -> Tuple[Optional[Tensor], ...]:
        memories: List[WeightedMemory] = ctx.memories
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
            both = (_by_memory(memories, q[step]) for q in (queries, to_queries))
            for i, (part, steps, query, to_query) in enumerate(zip(memories, ctx.of_memories, *both)):
                if part.attention is None:
                    continue
                to_alpha = torch.bmm(part.memory.gate_values, to_gates[step].unsqueeze(2)).squeeze(2)
                to_alpha = torch.add(to_alphas[i][:, step], to_alpha, alpha=part.weight)
                to_energies[i][:, step] = part.attention.weights_backward(alphas[i][:, step], to_alpha)
                to_query.copy_(steps.backward(query.unsqueeze(1), to_energies[i][:, step : step + 1]).squeeze(1))
            carried = to_state * (1 - z) + to_reset * r
            carried.addmm_(to_gates[step, :, : 2 * hidden], from_state[: 2 * hidden])
            carried.addmm_(to_queries[step], from_state[2 * hidden :])
        before, resets = states[:-1].flatten(0, 1), gates[..., hidden : 2 * hidden].flatten(0, 1)
        flat_gates, flat_queries = to_gates.flatten(0, 1), to_queries.flatten(0, 1)
        to_from_state = torch.cat([flat_gates[:, : 2 * hidden].t() @ before, flat_queries.t() @ before])
        to_candidate = flat_gates[:, 2 * hidden :].t() @ (resets * before)
        to_inputs = to_gates.transpose(0, 1)
        to_values = [
            torch.bmm(alpha.transpose(1, 2), to_inputs).mul_(part.weight) for part, alpha in zip(memories, alphas)
        ]
        to_memories: List[Tensor] = []
        by_memory = _by_memory(memories, queries.transpose(0, 1))
        for steps, query, gradient in zip(ctx.of_memories, by_memory, to_energies):
            if steps is not None:
                to_memories += steps.gradients(query, gradient)
        return (None, None, to_inputs, carried, to_from_state, to_candidate, *to_values, *to_memories)
