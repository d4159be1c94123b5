"""The loop of the recurrent decoder as one function with a backward pass of its own, for GPUs.

It computes what `recurrent_loop` computes, with 18 launches a step for one memory, the backward pass included, where
autograd needs 52.  All that does not depend on the state is computed for all steps at once.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class AttendedMemory(NamedTuple):
    """A memory of B sentences, and the attention to it by a softmax."""

    keys: Tensor  # (B, S, A)
    values: Tensor  # C h for the three gates, (B, S, 3n)
    bias: Tensor  # added to the energies: -inf for padding, (B, S)
    v: Optional[Tensor]  # v_a of additive attention, (A); None: the energies are dot products


class RecurrentFunction(torch.autograd.Function):
    """The states s_1 to s_T, (T, B, n), and the attention weights of each memory, (T, B, S).

    The arguments of ``apply`` are the weight of each memory in the context; the products W e for the gates, (B, T, 3n);
    the state before the first step, (B, n); each W_a, U_z and U_r, one below the other, (Q + 2n, n), where Q is the
    width of all queries; U, (n, n); and the fields of an `AttendedMemory` for each memory, one after the other.

    In ``sums``, (T, B, Q + 3n), a step has side by side the queries W_a s of the memories, z, r and s~ (see
    `ConditionalGru`), each in the place of its sum.
    """

    @staticmethod
    def forward(
        ctx: Any, weights: List[float], inputs: Tensor, state: Tensor, matrix: Tensor, candidate: Tensor, *parts: Any
    ) -> Tuple[Tensor, ...]:
        """Run the loop."""
        memories = _memories(parts)
        sentences, steps, width = inputs.shape
        n = width // 3
        q = matrix.size(0) - 2 * n
        sums = torch.cat([inputs.new_zeros(steps, sentences, q), inputs.transpose(0, 1)], dim=-1)
        states = torch.cat([state.unsqueeze(0), inputs.new_empty(steps, sentences, n)])
        resets = inputs.new_empty(steps, sentences, n)  # r * s
        alphas = [inputs.new_empty(steps, *memory.bias.shape) for memory in memories]
        energies = [memory.bias.expand(steps, -1, -1).contiguous() for memory in memories]
        tanhs: List[Any] = [None if m.v is None else inputs.new_empty(steps, *m.keys.shape) for m in memories]
        queries_of = _query_slices(memories)
        for t in range(steps):
            s, row = states[t], sums[t]
            row[:, : q + 2 * n].addmm_(s, matrix.t())
            for m, (keys, values, _, v) in enumerate(memories):
                query = row[:, queries_of[m]].unsqueeze(1)
                if v is None:
                    energies[m][t].unsqueeze(1).baddbmm_(query, keys.transpose(1, 2))
                else:
                    torch.add(query, keys, out=tanhs[m][t]).tanh_()
                    energies[m][t].view(-1).addmv_(tanhs[m][t].flatten(0, 1), v)
                torch.softmax(energies[m][t], dim=-1, out=alphas[m][t])
                row[:, q:].unsqueeze(1).baddbmm_(alphas[m][t].unsqueeze(1), values, alpha=weights[m])
            z_and_r = row[:, q : q + 2 * n].sigmoid_()
            torch.mul(z_and_r[:, n:], s, out=resets[t])
            new = row[:, q + 2 * n :].addmm_(resets[t], candidate.t()).tanh_()
            torch.lerp(s, new, z_and_r[:, :n], out=states[t + 1])
        ctx.weights, ctx.steps = weights, steps
        ctx.save_for_backward(states, sums, resets, matrix, candidate, *parts, *alphas, *tanhs)
        return (states[1:], *alphas)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_states: Tensor, *to_alphas: Tensor) -> Tuple[Optional[Tensor], ...]:
        """Run the loop backwards; ``to_x`` is the gradient of x."""
        count, (states, sums, resets, matrix, candidate, *saved) = len(ctx.weights), ctx.saved_tensors
        memories = _memories(saved[: -2 * count])
        alphas, tanhs = saved[-2 * count : -count], saved[-count:]
        n, q = states.size(-1), matrix.size(0) - 2 * states.size(-1)
        s, (z, r, new) = states[:-1], sums[..., q:].unflatten(-1, (3, n)).unbind(2)
        # the derivatives by each sum, and by s itself, for all steps at once
        of_state = torch.stack([z * (1 - z) * (new - s), z * (1 - new * new), 1 - z], dim=2)  # of z's and s~'s sums, s
        of_reset = torch.stack([s * r * (1 - r), r], dim=2)  # of r's sum, s
        inner = [m.keys if m.v is None else (1 - tanh * tanh).mul_(m.v) for m, tanh in zip(memories, tanhs)]
        to_sums = states.new_empty(*s.shape[:2], q + 5 * n)  # of the queries, z, r and s~, and two parts of that of s
        gates = to_sums[..., q:].unflatten(-1, (5, n))
        one = torch.eye(n, dtype=matrix.dtype, device=matrix.device)
        to_state = torch.cat([matrix, torch.zeros_like(one), one, one])  # of a row of to_sums
        to_s = torch.cat([torch.zeros_like(s[:1]), to_states])
        to_alphas = tuple(gradient.clone() for gradient in to_alphas)
        to_energies = [torch.empty_like(alpha) for alpha in alphas]
        queries_of = _query_slices(memories)
        for t in reversed(range(ctx.steps)):
            torch.mul(to_s[t + 1].unsqueeze(1), of_state[t], out=gates[t, :, 0::2])
            torch.mul((gates[t, :, 2] @ candidate).unsqueeze(1), of_reset[t], out=gates[t, :, 1::2])
            for m, (_, values, _, v) in enumerate(memories):
                to_context = to_sums[t, :, q : q + 3 * n].unsqueeze(1)
                to_alphas[m][t].unsqueeze(1).baddbmm_(to_context, values.transpose(1, 2), alpha=ctx.weights[m])
                to_energy, alpha = to_energies[m][t], alphas[m][t]
                torch._softmax_backward_data(to_alphas[m][t], alpha, -1, alpha.dtype, grad_input=to_energy)
                by_key = inner[m] if v is None else inner[m][t]
                torch.bmm(to_energy.unsqueeze(1), by_key, out=to_sums[t, :, queries_of[m]].unsqueeze(1))
            to_s[t].addmm_(to_sums[t], to_state)
        to_inputs = to_sums[..., q : q + 3 * n].transpose(0, 1)
        to_matrix = to_sums[..., : q + 2 * n].flatten(0, 1).t() @ s.flatten(0, 1)
        to_candidate = gates[:, :, 2].flatten(0, 1).t() @ resets.flatten(0, 1)
        to_parts: List[Optional[Tensor]] = []
        for m, (memory, to_energy, weight) in enumerate(zip(memories, to_energies, ctx.weights)):
            to_values = weight * torch.bmm(alphas[m].permute(1, 2, 0), to_inputs)
            if memory.v is None:
                queries = sums[..., queries_of[m]].transpose(0, 1)
                to_parts += [torch.bmm(to_energy.permute(1, 2, 0), queries), to_values, None, None]
            else:
                to_keys = torch.einsum("tbs,tbsa->bsa", to_energy, inner[m])
                to_parts += [to_keys, to_values, None, tanhs[m].flatten(0, 2).t() @ to_energy.flatten()]
        return (None, to_inputs, to_s[0], to_matrix, to_candidate, *to_parts)


def _memories(parts: Sequence[Any]) -> List[AttendedMemory]:
    size = len(AttendedMemory._fields)
    return [AttendedMemory(*parts[i : i + size]) for i in range(0, len(parts), size)]


def _query_slices(memories: Sequence[AttendedMemory]) -> List[slice]:
    """Return where the query of each memory stands in a row of the sums."""
    ends = [0]
    for memory in memories:
        ends.append(ends[-1] + memory.keys.size(-1))
    return [slice(*pair) for pair in zip(ends, ends[1:])]
