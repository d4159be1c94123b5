"""The decoder's gated recurrent unit against its equations (Bahdanau et al. 2015, appendix A.2.2)."""

import torch
from helpers import assert_close, randomise
from torch.autograd import gradcheck

from bert_fused_plugin.modules.conditional_gru import ConditionalGru

B, M, N, C = 2, 7, 6, 8


def in_double(module):
    """Return *module* in double precision with random parameters."""
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


def test_the_gradients_are_those_of_finite_differences():
    inputs = [states(B, width).requires_grad_() for width in (3 * N, 2 * N, N)]
    assert gradcheck(in_double(ConditionalGru(M, C, N)), inputs)


def test_a_unit_without_context_has_no_matrix_for_it():
    assert ConditionalGru(M, 0, N).context_proj is None
