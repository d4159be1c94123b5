"""The encoder's layer against a literal loop over the paper's equations (Zhu et al. 2020, section 4.1)."""

import pytest
import torch
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from helpers import assert_close
from literal_layers import (
    BERT_PAD,
    PAD,
    B,
    C,
    D,
    L,
    S,
    encoder_layer,
    gated,
    literal_encoder_layer,
    literal_stacked_layer,
    states,
    stock_config,
    weighted,
)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
def test_encoder_layer_equals_the_equations(normalize_before):
    layer = encoder_layer(normalize_before=normalize_before).eval()
    h, bert = states(S, B, C), states(L, B, D)
    actual = layer(h, PAD, bert, BERT_PAD)
    expected = literal_encoder_layer(layer, h, bert, weighted(0.5, 0.5))
    keep = ~PAD.t()
    assert_close(actual[keep], expected[keep], atol=1e-10)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize(
    ("fusion", "join"),
    [({"weights": (0.7, 0.2)}, weighted(0.7, 0.2)), ({"kind": "gated"}, gated)],
    ids=["branch weights", "gated"],
)
def test_fusions_of_two_branches_equal_their_formula(fusion, join, normalize_before):
    encoder = encoder_layer(fusion=fusion, normalize_before=normalize_before).eval()
    h, bert = states(S, B, C), states(L, B, D)
    keep = ~PAD.t()
    expected = literal_encoder_layer(encoder, h, bert, join)
    assert_close(encoder(h, PAD, bert, BERT_PAD)[keep], expected[keep], atol=1e-10)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("bert_first", [True, False], ids=["bert-first", "encoder-first"])
def test_stacked_fusion_is_one_sublayer_after_the_other(bert_first, normalize_before):
    changed = {"fusion": {"kind": "stacked", "bert_first": bert_first}, "normalize_before": normalize_before}
    encoder = encoder_layer(**changed).eval()
    h, bert = states(S, B, C), states(L, B, D)

    to_bert = (encoder.bert_attn, encoder.bert_attn_layer_norm, bert, BERT_PAD)
    to_source = (encoder.self_attn, encoder.self_attn_layer_norm, None, PAD)
    steps = [to_bert, to_source] if bert_first else [to_source, to_bert]
    expected = literal_stacked_layer(encoder, h, steps)
    keep = ~PAD.t()
    assert_close(encoder(h, PAD, bert, BERT_PAD)[keep], expected[keep], atol=1e-10)


@pytest.mark.parametrize(
    ("u", "weights"),
    [(0.0, (1.0, 0.0)), (0.29, (1.0, 0.0)), (0.31, (0.5, 0.5)), (0.69, (0.5, 0.5)), (0.71, (0.0, 1.0))],
)
def test_drop_net_in_training_equals_the_three_cases_of_the_paper(monkeypatch, u, weights):
    """p_net = 0.6: U < 0.3 the NMT branch alone, U > 0.7 BERT's alone, else the mean."""
    encoder = encoder_layer(fusion={"p_net": 0.6}).train()
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    h, bert = states(S, B, C), states(L, B, D)
    keep = ~PAD.t()
    actual = encoder(h, PAD, bert, BERT_PAD)
    assert_close(actual[keep], literal_encoder_layer(encoder, h, bert, weighted(*weights))[keep], atol=1e-10)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
def test_without_bert_the_layer_is_that_of_fairseq(monkeypatch, normalize_before):
    cfg = stock_config(normalize_before)
    changed = {"fusion": {"p_net": 1.0}, "normalize_before": normalize_before}
    monkeypatch.setattr(torch, "rand", lambda size: torch.zeros(size))  # drop-net: the NMT branch alone

    stock, layer = TransformerEncoderLayerBase(cfg).double(), encoder_layer(**changed).train()
    missing = layer.load_state_dict(stock.state_dict(), strict=False).missing_keys
    assert missing
    assert all(name.startswith("bert_attn.") for name in missing)
    h, bert = states(S, B, C), states(L, B, D)
    keep = ~PAD.t()
    expected = stock.train()(h, PAD)
    assert_close(layer(h, PAD, bert, BERT_PAD)[keep], expected[keep], atol=1e-6)


def test_every_dropout_has_its_own_rate_and_the_layers_name():
    """fairseq's --retain-dropout-modules asks for the name."""
    layer = encoder_layer(dropout=0.1, attention_dropout=0.2, activation_dropout=0.3)
    attentions = [layer.self_attn, layer.bert_attn]
    assert [attention.dropout_module.p for attention in attentions] == [0.2] * len(attentions)
    assert (layer.dropout_module.p, layer.activation_dropout_module.p) == (0.1, 0.3)
    for dropout in (layer.dropout_module, layer.activation_dropout_module):
        dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=["another"])
        assert not dropout.apply_during_inference
        dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=[type(layer).__name__])
        assert dropout.apply_during_inference
