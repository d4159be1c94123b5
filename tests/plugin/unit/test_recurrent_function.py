"""The recurrent loop as one function against the loop that autograd differentiates."""

from unittest.mock import MagicMock

import pytest
import torch
from helpers import randomise

from bert_fused_plugin.modules import recurrent_loop as module
from bert_fused_plugin.modules.recurrent_attention import RECURRENT_ATTENTIONS
from bert_fused_plugin.modules.recurrent_function import RecurrentFunction
from bert_fused_plugin.modules.recurrent_loop import ProjectedMemory, recurrent_loop, state_weights
from bert_fused_plugin.modules.recurrent_unit import ConditionalGru

B, T, N, M = 3, 4, 5, 6
MEMORIES = {
    "additive": [("additive", 7, 1.0)],
    "dot": [("dot", 7, 1.0)],
    "both": [("dot", 7, 0.7), ("additive", 2, 0.2)],  # kind, length S, and weight
}


@pytest.fixture(params=MEMORIES)
def case(request):
    """The unit, its inputs, the first state, and memories, all with gradients and in double precision."""
    torch.manual_seed(5)
    cell = ConditionalGru(M, 8, N).double()
    randomise(cell)
    memories = {}
    for i, (kind, length, weight) in enumerate(MEMORIES[request.param]):
        attention = RECURRENT_ATTENTIONS[kind].build(N, 8, 9 + i).double()
        randomise(attention)
        padding = torch.zeros(B, length, dtype=torch.bool)
        padding[0, 1:] = padding[2, :1] = True
        keys, values = leaf(B, length, 9 + i), leaf(B, length, 3 * N)
        memories[f"memory {i}"] = ProjectedMemory(attention, weight, keys, values, values, padding)
    return cell, leaf(B, T, 3 * N), leaf(B, N), memories


def leaf(*sizes):
    return torch.randn(*sizes, dtype=torch.double, requires_grad=True)


def leaves(cell, inputs, state, memories):
    used = [inputs, state, cell.gate_proj.weight, cell.candidate_proj.weight]
    for memory in memories.values():
        used += [memory.keys, memory.gate_values]
        used += [p for name, p in memory.attention.named_parameters() if not name.startswith("key_proj")]
    return used


def run(case, monkeypatch, by_function):
    """Return states, weights and gradients of one of both ways."""
    monkeypatch.setattr(module, "launches_matter", lambda tensor: by_function)
    cell, inputs, state, memories = case
    states, alphas = recurrent_loop(cell, inputs, state, memories, state_weights(cell, memories))
    outputs = [states, *alphas.values()]
    torch.manual_seed(6)
    loss = sum((torch.randn(out.shape, dtype=torch.double).to(out) * out).sum() for out in outputs)
    return outputs + list(torch.autograd.grad(loss, leaves(*case)))


def test_equals_the_plain_loop(case, monkeypatch):
    monkeypatch.setattr(RecurrentFunction, "apply", calls := MagicMock(wraps=RecurrentFunction.apply))
    plain = run(case, monkeypatch, by_function=False)
    assert calls.call_count == 0
    for expected, actual in zip(plain, run(case, monkeypatch, by_function=True)):
        torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-12)
    assert calls.call_count == 1


def test_a_gradient_of_the_states_alone_is_right(case, monkeypatch):
    """As in training, where nothing depends on the weights but the states and the readout."""
    monkeypatch.setattr(module, "launches_matter", lambda tensor: True)
    cell, inputs, state, memories = case
    from_state = state_weights(cell, memories)

    def function(inputs, state):
        return recurrent_loop(cell, inputs, state, memories, from_state)[0]

    assert torch.autograd.gradcheck(function, (inputs, state))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_lower_precision_is_as_exact_as_the_plain_loop(case, monkeypatch, dtype):
    exact = run(case, monkeypatch, by_function=False)
    cell, inputs, state, memories = case
    for name, memory in memories.items():
        keys, values = (t.detach().to(dtype).requires_grad_() for t in (memory.keys, memory.gate_values))
        memories[name] = ProjectedMemory(
            memory.attention.to(dtype), memory.weight, keys, values, values, memory.padding_mask
        )
    lower = cell.to(dtype), *(t.detach().to(dtype).requires_grad_() for t in (inputs, state)), memories
    plain, function = (run(lower, monkeypatch, by_function=by) for by in (False, True))
    for value, one, other in zip(exact, plain, function):
        errors = [float((found.double() - value).abs().max()) for found in (other, one)]
        assert errors[0] <= 2 * errors[1] + 4 * torch.finfo(dtype).eps * float(value.abs().max())
