"""Attention to projected states against fairseq's own, which projects for each beam by itself."""

import pytest
import torch
from fairseq.modules import MultiheadAttention
from helpers import assert_close, randomise

from bert_fused_plugin.modules.beam_order import select_rows, sentences_to_keep
from bert_fused_plugin.modules.cross_attention import CrossAttention, project
from bert_fused_plugin.modules.multihead_attention import Positions, SelfAttention, attention_mask

C, H, D, S, N, T = 8, 2, 6, 5, 3, 4


@pytest.fixture
def states():
    mask = torch.zeros(N, S, dtype=torch.bool)
    mask[0, 3:] = mask[2, :1] = True
    return torch.randn(N, S, D), attention_mask(mask, torch.float)


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("need_weights", [False, True])
def test_equals_fairseqs_attention_with_states_repeated_for_beams(states, beams, need_weights):
    ours = CrossAttention(C, H, D, dropout=0.0).eval()
    randomise(ours)
    stock = MultiheadAttention(C, H, kdim=D, vdim=D, encoder_decoder_attention=True).eval()
    stock.load_state_dict(ours.state_dict())
    (h, mask), query = states, torch.randn(N * beams, T, C)
    padding = mask.flatten(1)[:, :S] != 0
    repeated = h.transpose(0, 1).repeat_interleave(beams, dim=1)
    expected, expected_weights = stock(
        query.transpose(0, 1),
        repeated,
        repeated,
        padding.repeat_interleave(beams, dim=0),
        static_kv=True,
        need_head_weights=True,
    )
    out, weights = ours(query, project([ours], h, mask)[0], need_weights=need_weights)
    assert_close(out.transpose(0, 1), expected)
    if need_weights:
        assert_close(weights.view(N, H, beams, T, S), expected_weights.view(H, N, beams, T, S).transpose(0, 1))
    else:
        assert weights is None


def test_dropout_is_on_the_weights_in_training_and_where_it_is_retained(states):
    attention = CrossAttention(C, H, D, dropout=0.5)
    [memory], query = project([attention], *states), torch.randn(N, T, C)
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
    attention, x = SelfAttention(8, 2, 0.5).eval(), torch.randn(64, 1, 8)

    def step():
        return attention(x, Positions(incremental_state={}))[0]

    assert torch.equal(step(), step())
    attention.dropout_module.make_generation_fast_("self_attn", retain_dropout=True, retain_dropout_modules=None)
    assert not torch.equal(step(), step())


def test_states_are_projected_for_each_attention_that_reads_them(states):
    attentions = [CrossAttention(C, H, D, dropout=0.0) for _ in range(2)]
    first, none, second = project([attentions[0], None, attentions[1]], *states)
    assert none is None
    for attention, memory in zip(attentions, (first, second)):
        for part, products in ((attention.k_proj, memory.keys), (attention.v_proj, memory.values)):
            assert_close(products.transpose(1, 2).flatten(2), part(states[0]))
    assert project([None], *states) == [None]


def test_causal_attention_needs_no_mask():
    x, attention = torch.randn(N, T, C), SelfAttention(C, H, 0.0, "sparsemax").eval()
    causal, weights = attention(x, Positions(is_causal=True), need_weights=True)
    assert not weights.triu(1).any()
    assert_close(causal, attention(x, Positions(torch.full((T, T), -torch.inf).triu(1)))[0])


# --- what belongs to a sentence is kept once for all its beams


@pytest.mark.parametrize(
    ("order", "sentences", "size", "kept"),
    [
        ([0, 0, 1, 1], 2, 1, (None, 2)),  # the start of a search
        ([1, 0, 2, 2], 2, 2, (None, 2)),  # beams of a sentence change places
        ([3, 2], 2, 2, ([1], 2)),  # a sentence is done
        ([3, 2, 1, 1], 2, 2, ([1, 0], 2)),
        ([3, 2, 1, 1], 4, 1, ([3, 2, 1, 1], 1)),  # each row is a sentence
        ([0, 1, 2, 3], 4, 1, (None, 1)),
        ([1, 2, 0, 0], 2, 2, ([0, 1, 0, 0], 1)),  # beams of two sentences: no order of a beam search
        ([2, 0, 0], 2, 2, ([1, 0, 0], 1)),
    ],
)
def test_a_sentence_is_kept_once_while_its_beams_stay_together(order, sentences, size, kept):
    keep, size = sentences_to_keep(torch.tensor(order), sentences, size)
    assert (None if keep is None else keep.tolist(), size) == kept


def test_rows_are_selected_in_all_that_a_search_keeps():
    rows, tensor = torch.tensor([2, 0]), torch.arange(3)
    kept = select_rows([[(tensor, None)], 5, tensor], rows)
    assert kept[0][0][0].tolist() == [2, 0]
    assert (kept[0][0][1], kept[1]) == (None, 5)
    assert kept[2] is kept[0][0][0]  # as the mask that layers share
    assert select_rows(torch.eye(3), rows, dim=1).tolist() == torch.eye(3)[:, [2, 0]].tolist()
