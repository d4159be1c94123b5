"""The encoder's layer against a literal loop over the paper's equations (Zhu et al. 2020, section 4.1)."""

import pytest
import torch
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from helpers import assert_close
from literal_layers import (
    BERT_PAD,
    JOINED,
    PAD,
    B,
    C,
    D,
    L,
    S,
    check_dropouts,
    encoder_layer,
    literal_encoder_layer,
    literal_stacked_layer,
    states,
    stock_config,
)

NORMS = pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])


@NORMS
@pytest.mark.parametrize("name", JOINED)
def test_fusions_of_two_branches_equal_their_formula(monkeypatch, name, normalize_before):
    fusion, u, join = JOINED[name]
    encoder = encoder_layer(fusion=fusion, normalize_before=normalize_before).train(u is not None)
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    h, bert = states(S, B, C), states(L, B, D)
    keep = ~PAD.t()
    expected = literal_encoder_layer(encoder, h, bert, join)
    assert_close(encoder(h, PAD, bert, BERT_PAD)[keep], expected[keep], atol=1e-10)


@NORMS
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


@NORMS
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
    layer = encoder_layer(dropout=0.1, attention_dropout=0.2, activation_dropout=0.3)
    check_dropouts(layer, [layer.self_attn, layer.bert_attn])
