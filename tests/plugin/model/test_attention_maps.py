"""Whole models whose attentions have other maps than softmax; what all models do, other tests test of these too."""

import pytest
import torch
from fairseq.modules import MultiheadAttention
from helpers import assert_close, randomise
from warm_start_helpers import said

from bert_fused_plugin.modules.attention_map import FixedMap, LearnedEntmax, learned_alphas
from bert_fused_plugin.modules.cross_attention import CrossAttention
from bert_fused_plugin.modules.multihead_attention import Positions, SelfAttention, attention_mask

BOTH = {"attention_map": "entmax", "self_attention_map": "entmax"}


@pytest.mark.parametrize("fusion", ["parallel", "gated", "stacked", "embedding"])
def test_each_flag_reaches_its_attentions_and_no_others(build, fusion):
    model = build(bert_fusion=fusion, attention_map="sparsemax", self_attention_map="entmax")
    for name, module in model.named_modules():
        if isinstance(module, CrossAttention):
            assert isinstance(module.attention_map, FixedMap), name
        elif isinstance(module, MultiheadAttention):
            assert isinstance(module.attention_map, LearnedEntmax), name
    plain = build(bert_fusion=fusion)
    assert not any(isinstance(module, (FixedMap, LearnedEntmax)) for module in plain.modules())
    extra = set(model.state_dict()) - set(plain.state_dict())
    assert {name.rpartition(".self_attn.")[2] for name in extra} == {"attention_map.raw_alpha"}


def test_softmax_draws_and_computes_as_without_the_flags(build, batch):
    """Also the random numbers that follow are the same."""
    torch.manual_seed(1)
    plain, number = build(), torch.rand(())
    for options in ({"attention_map": "softmax", "self_attention_map": "softmax"}, BOTH):
        torch.manual_seed(1)
        other = build(**options)
        assert torch.equal(torch.rand(()), number)
        for name, value in plain.named_parameters():
            assert torch.equal(other.state_dict()[name], value), name
        if options is not BOTH:
            assert torch.equal(other.eval()(*batch)[0], plain.eval()(*batch)[0])


def test_self_attention_with_softmax_in_place_of_its_map_is_fairseqs(monkeypatch):
    ours = SelfAttention(8, 2, 0.0, "sparsemax").eval()
    stock = MultiheadAttention(8, 2, self_attention=True).eval()
    randomise(stock)
    ours.load_state_dict(stock.state_dict())
    monkeypatch.setattr(ours, "attention_map", torch.nn.Softmax(dim=-1))
    x, padding = torch.randn(5, 3, 8), torch.arange(5) >= torch.tensor([[5], [3], [1]])
    future = torch.full((5, 5), -torch.inf).triu(1)
    expected, _ = stock(x, x, x, key_padding_mask=padding, attn_mask=future)
    out, _ = ours(x.transpose(0, 1), Positions(attention_mask(padding, x.dtype)[..., :5] + future))
    assert_close(out.transpose(0, 1), expected)
    assert ours.dropout_module.module_name == "MultiheadAttention"  # for --retain-dropout-modules


def test_warm_start_from_softmax_leaves_alpha_at_its_start_and_says_so(stock, save, start, caplog):
    model = start(save(stock()), **BOTH)
    assert {alpha for heads in learned_alphas(model).values() for alpha in heads} == {1.5}
    assert "initial values: encoder.layers.0.self_attn.attention_map.raw_alpha, " in said(caplog)
