"""Attention whose matrices are multiplied into its keys and values against attention that applies them in each step."""

import pytest
import torch
from helpers import assert_close, randomise
from torch import nn
from torch.nn.utils import prune

from bert_fused_plugin.modules import folded_attention
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS
from bert_fused_plugin.modules.cross_attention import KeysAndValues, project
from bert_fused_plugin.modules.folded_attention import FoldedMemory, FoldingAttention
from bert_fused_plugin.modules.multihead_attention import attention_mask

C, H, D, S, N = 12, 3, 6, 5, 3


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def states():
    mask = torch.zeros(N, S, dtype=torch.bool)
    mask[0, 3:] = mask[2, :1] = True
    return torch.randn(N, S, D).double(), attention_mask(mask, torch.double)


def make(attention_map="softmax"):
    attention = FoldingAttention(C, H, D, 0.5, attention_map).double().eval()
    randomise(attention)
    return attention


def for_search(attention, h, mask):
    [memory] = project([attention], h, mask)
    return attention.fold(memory)


@pytest.mark.parametrize("attention_map", ATTENTION_MAPS)
@pytest.mark.parametrize("beams", [1, 4])
def test_equals_attention_that_is_not_folded(states, attention_map, beams):
    attention, query = make(attention_map), torch.randn(N * beams, 1, C).double()
    expected, expected_weights = attention(query, *project([attention], *states), need_weights=True)
    memory = for_search(attention, *states)
    assert isinstance(memory, FoldedMemory)
    out, weights = attention(query, memory, need_weights=True)
    assert_close(out, expected, atol=1e-12)
    assert_close(weights, expected_weights, atol=1e-12)
    assert attention(query, memory)[1] is None  # nobody has asked


@pytest.mark.parametrize("case", ["many positions", "gradients", "half precision", "no bias"])
def test_is_not_folded_where_it_does_not_pay_or_fit(monkeypatch, states, case):
    attention, (h, mask) = make(), states
    if case == "many positions":
        monkeypatch.setattr(folded_attention, "SMALL_SIZE", N * H * S - 1)
    elif case == "half precision":
        attention, h = attention.bfloat16(), h.bfloat16()
    elif case == "no bias":
        attention.q_proj.bias = None
    with torch.set_grad_enabled(case == "gradients"):
        assert isinstance(for_search(attention, h, mask), KeysAndValues)


CHANGES = {
    "another class": lambda linear: setattr(linear, "__class__", type("Quantised", (nn.Linear,), {})),
    "another forward": lambda linear: setattr(linear, "forward", lambda x: 2 * x),
    "a hook": lambda linear: linear.register_forward_hook(lambda module, inputs, out: 0 * out),
    "a pre-hook": lambda linear: prune.random_unstructured(linear, "weight", 0.5),
    "another weight": lambda linear: setattr(linear, "weight", type("Q", (nn.Parameter,), {})(linear.weight.data)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["q_proj", "out_proj"])
def test_is_not_folded_where_a_projection_is_more_than_its_matrix(states, name, change):
    attention = make()
    CHANGES[change](getattr(attention, name))
    assert isinstance(for_search(attention, *states), KeysAndValues)
