"""Attention to projected states against fairseq's own, which projects for each beam by itself."""

import pytest
import torch
from fairseq.modules import MultiheadAttention
from helpers import assert_close, randomise

from bert_fused_plugin.modules.cross_attention import CrossAttention
from bert_fused_plugin.modules.multihead_attention import SelfAttention, attention_mask

C, H, D, S, N, T = 8, 2, 6, 5, 3, 4


@pytest.fixture
def states():
    mask = torch.zeros(N, S, dtype=torch.bool)
    mask[0, 3:] = mask[2, :1] = True
    return torch.randn(S, N, D), attention_mask(mask, torch.float)


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("need_weights", [False, True])
def test_equals_fairseqs_attention_with_states_repeated_for_beams(states, beams, need_weights):
    ours = CrossAttention(C, H, D, dropout=0.0).eval()
    randomise(ours)
    stock = MultiheadAttention(C, H, kdim=D, vdim=D, encoder_decoder_attention=True).eval()
    stock.load_state_dict(ours.state_dict())
    (h, mask), query = states, torch.randn(T, N * beams, C)
    padding = mask.flatten(1) != 0
    repeated = h.repeat_interleave(beams, dim=1)
    expected, expected_weights = stock(
        query, repeated, repeated, padding.repeat_interleave(beams, dim=0), static_kv=True, need_head_weights=True
    )
    out, weights = ours(query, ours.project(h, mask), need_weights=need_weights)
    assert_close(out, expected)
    if need_weights:
        assert_close(weights, expected_weights)
    else:
        assert weights is None


def test_dropout_is_on_the_weights_in_training_and_where_it_is_retained(states):
    attention = CrossAttention(C, H, D, dropout=0.5)
    memory, query = attention.project(*states), torch.randn(T, N, C)
    whole = attention.eval()(query, memory)[0]
    assert_close(attention(query, memory, need_weights=True)[0], whole)
    for need_weights in (False, True):
        attention.train()
        assert not torch.equal(attention(query, memory, need_weights)[0], whole)
        attention.eval()
        attention.dropout_module.apply_during_inference = True
        assert not torch.equal(attention(query, memory, need_weights)[0], whole)
        attention.dropout_module.apply_during_inference = False


def test_the_dropout_of_self_attention_is_retained_in_the_search_too():
    attention, x = SelfAttention(8, 2, 0.5).eval(), torch.randn(1, 64, 8)
    assert torch.equal(attention.step(x, {}), attention.step(x, {}))
    attention.dropout_module.make_generation_fast_("self_attn", retain_dropout=True, retain_dropout_modules=None)
    assert not torch.equal(attention.step(x, {}), attention.step(x, {}))
