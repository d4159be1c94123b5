"""The deep output against its equation (Bahdanau et al. 2015, appendix A.2.2)."""

import pytest
import torch
from helpers import assert_close, randomise
from torch.autograd import gradcheck

from bert_fused_plugin.modules.deep_output import DeepOutput

B, M, N, C = 2, 7, 6, 8


def in_double(module):
    """Return *module* in double precision with random parameters."""
    module = module.double()
    randomise(module)
    return module


def states(*sizes):
    return torch.randn(*sizes, dtype=torch.double)


def normed(x, norm):
    return (x - x.mean()) / torch.sqrt(x.var(unbiased=False) + 1e-5) * norm.weight + norm.bias


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_deep_output_is_the_equation(layer_norm):
    output = in_double(DeepOutput(N, M, C, 5, layer_norm))
    inputs = [states(B, n) for n in (N, M, C)]
    actual = output(inputs[0], inputs[1], output.context_proj(inputs[2]))
    for b in range(B):
        s, e, c = (x[b] for x in inputs)
        if layer_norm:
            s, e = normed(s, output.state_norm), normed(e, output.embed_norm)
        hidden = (
            output.state_proj.weight @ s
            + output.state_proj.bias
            + output.embed_proj.weight @ e
            + output.context_proj.weight @ c
        )
        assert_close(actual[b], torch.stack([hidden[2 * i : 2 * i + 2].max() for i in range(5)]), atol=1e-12)


def test_the_gradients_are_those_of_finite_differences():
    inputs = [states(B, width).requires_grad_() for width in (N, M, 10)]
    assert gradcheck(in_double(DeepOutput(N, M, C, 5)), inputs)
