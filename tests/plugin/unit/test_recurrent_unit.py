"""The parts of the recurrent decoder: equations (Bahdanau et al. 2015, appendix A.2.2), gradients, first values."""

import pytest
import torch
from helpers import assert_close, randomise
from torch.autograd import gradcheck

from bert_fused_plugin.modules.recurrent_attention import AdditiveAttention, _AdditiveEnergies
from bert_fused_plugin.modules.recurrent_unit import ConditionalGru, DeepOutput

B, M, N, C = 2, 7, 6, 8
K, S, A = 3, 5, 4


def in_double(module):
    module = module.double()
    randomise(module)
    return module


def states(*sizes):
    return torch.randn(*sizes, dtype=torch.double)


def test_the_recurrent_unit_is_the_equation():
    cell = in_double(ConditionalGru(M, C, N))
    e, c, s = states(B, M), states(B, C), states(B, N)
    actual = cell(cell.input_proj(e) + cell.context_proj(c), cell.gate_proj(s), s)
    w, bias, ctx = cell.input_proj.weight, cell.input_proj.bias, cell.context_proj.weight
    (w_z, w_r, w_s), (b_z, b_r, b_s), (c_z, c_r, c_s) = w.chunk(3), bias.chunk(3), ctx.chunk(3)
    u_z, u_r = cell.gate_proj.weight.chunk(2)
    for b in range(B):
        z = torch.sigmoid(w_z @ e[b] + u_z @ s[b] + c_z @ c[b] + b_z)
        r = torch.sigmoid(w_r @ e[b] + u_r @ s[b] + c_r @ c[b] + b_r)
        new = torch.tanh(w_s @ e[b] + cell.candidate_proj.weight @ (r * s[b]) + c_s @ c[b] + b_s)
        assert_close(actual[b], (1 - z) * s[b] + z * new, atol=1e-12)


def test_the_deep_output_is_the_equation():
    output = in_double(DeepOutput(N, M, C, 5))
    inputs = [states(B, n) for n in (N, M, C)]
    actual = output(inputs[0], output.embed_proj(inputs[1]) + output.context_proj(inputs[2]))
    for b in range(B):
        s, e, c = (x[b] for x in inputs)
        hidden = output.state_proj.weight @ s + output.state_proj.bias
        hidden = hidden + output.embed_proj.weight @ e + output.context_proj.weight @ c
        assert_close(actual[b], torch.stack([hidden[2 * i : 2 * i + 2].max() for i in range(5)]), atol=1e-12)


def test_the_gradients_of_the_energies_are_those_of_finite_differences():
    assert gradcheck(_AdditiveEnergies.apply, [states(*size).requires_grad_() for size in ((B, K, A), (B, S, A), (A,))])


def test_the_vectors_of_additive_attention_begin_small():
    v = AdditiveAttention(N, C, 1000).v
    assert v.min().item() == pytest.approx(-0.1, abs=0.01)
    assert v.max().item() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_the_digits_of_the_energies(dtype):
    torch.manual_seed(1)
    additive = AdditiveAttention(N, C, 1000).to(dtype)
    additive.v.data.normal_(0.1, 0.3)
    query, keys = torch.randn(B, K, 1000).to(dtype), torch.randn(B, S, 1000).to(dtype)
    exact = torch.tanh(query.double().unsqueeze(2) + keys.double().unsqueeze(1)) @ additive.v.double()
    rounded = exact.to(dtype).double()
    with torch.no_grad(), torch.autocast("cpu", dtype):  # of fairseq's --amp
        assert (additive.energies(query, keys).double() - exact).std() < 1.5 * (rounded - exact).std()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_the_digits_of_the_gradients(dtype):
    """At the beginning, the states are small: `--rnn-init paper`."""
    torch.manual_seed(1)
    v, query, keys = (1e-3 * torch.randn(size) for size in ((100,), (B, K, 100), (B, S, 100)))
    to_energies, found = torch.randn(B, K, S), []
    for each in (torch.float64, dtype):
        inputs = [tensor.to(dtype).to(each).requires_grad_() for tensor in (query, keys, v)]
        energies = _AdditiveEnergies.apply(*inputs)
        found.append(torch.autograd.grad(energies, inputs, to_energies.to(dtype).to(each)))
    for expected, actual in zip(*found):
        torch.testing.assert_close(actual.double(), expected, rtol=0.01, atol=0.01 * float(expected.std()))
