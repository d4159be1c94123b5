"""Steps of self-attention in the search, against fairseq's own attention, which computes in another way."""

import pytest
import torch
from fairseq.modules import MultiheadAttention
from torch.testing import assert_close

from bert_fused_plugin.modules.multihead_attention import SelfAttention

ORDERS = [[2, 0, 0], [1, 1, 2], [2, 2, 2]]  # of the rows, after each step


@pytest.fixture
def attentions():
    torch.manual_seed(1)
    stock = MultiheadAttention(8, 2, self_attention=True).eval()
    for parameter in stock.parameters():
        torch.nn.init.normal_(parameter)
    ours = SelfAttention(8, 2, 0.0).eval()
    ours.load_state_dict(stock.state_dict())
    return ours, stock


def test_steps_with_beams_that_change_places_are_fairseqs(attentions):
    ours, stock = attentions
    own_state, state = {}, {}
    for order in ORDERS:
        x = torch.randn(1, 3, 8)
        expected, _ = stock(x, x, x, incremental_state=state, need_weights=False)
        assert_close(ours.step(x, own_state), expected)
        ours.reorder_incremental_state(own_state, torch.tensor(order))
        stock.reorder_incremental_state(state, torch.tensor(order))


@pytest.mark.parametrize("attention_map", ["softmax", "sparsemax", "entmax"])
def test_steps_are_the_rows_of_the_whole_sequence(attention_map):
    torch.manual_seed(1)
    attention = SelfAttention(8, 2, 0.0, attention_map).double().eval()
    x, state = torch.randn(4, 3, 8, dtype=torch.float64), {}
    future = torch.full((4, 4), -torch.inf, dtype=torch.float64).triu(1)
    whole, _ = attention(x, x, x, need_weights=False, attn_mask=future)
    steps = torch.cat([attention.step(x[time : time + 1], state) for time in range(4)])
    assert_close(steps, whole, atol=1e-10, rtol=0)


def test_dropout_is_kept_in_the_search_where_it_is_asked_for():
    torch.manual_seed(1)
    attention = SelfAttention(8, 2, 0.5).eval()
    x = torch.randn(1, 64, 8)
    assert torch.equal(attention.step(x, {}), attention.step(x, {}))
    attention.dropout_module.make_generation_fast_("self_attn", retain_dropout=True, retain_dropout_modules=None)
    assert not torch.equal(attention.step(x, {}), attention.step(x, {}))
