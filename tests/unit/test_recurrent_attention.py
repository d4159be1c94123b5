"""The attentions of the recurrent decoder against literal loops over their equations."""

import pytest
import torch
from helpers import assert_close, randomise
from torch.autograd import gradcheck

from bert_fused_plugin.modules.recurrent_attention import AdditiveAttention, DotAttention

B, K, S, A, N, C = 2, 3, 5, 4, 6, 8
PAD = torch.tensor([[False] * S, [True] * 2 + [False] * (S - 2)])


def in_double(module):
    """Return *module* in double precision with random parameters."""
    module = module.double()
    randomise(module)
    return module


def states(*sizes):
    return torch.randn(*sizes, dtype=torch.double)


def test_the_gradients_of_the_attentions_are_those_of_finite_differences():
    def leaf(*sizes):
        return states(*sizes).requires_grad_()

    for attention in (in_double(AdditiveAttention(N, C, A)), in_double(DotAttention(N, C, A))):
        assert gradcheck(lambda q, k, a=attention: a(q, k, PAD), (leaf(B, K, A), leaf(B, S, A)))
    additive = in_double(AdditiveAttention(N, C, A))
    weights = torch.randn(B, K, S, dtype=torch.double)

    def by_v(v):
        additive.v.data = v.data
        return (additive(q, k, PAD) * weights).sum()

    q, k = states(B, K, A), states(B, S, A)
    (additive(q, k, PAD) * weights).sum().backward()
    steps = 1e-6 * torch.eye(A, dtype=torch.double)
    v = additive.v.detach().clone()
    numeric = torch.stack([(by_v(v + step) - by_v(v - step)) / 2e-6 for step in steps])
    assert_close(additive.v.grad, numeric.detach(), atol=1e-7)


def test_the_vectors_of_additive_attention_begin_small():
    v = AdditiveAttention(N, C, 1000).v
    assert v.min().item() == pytest.approx(-0.1, abs=0.01)
    assert v.max().item() == pytest.approx(0.1, abs=0.01)
