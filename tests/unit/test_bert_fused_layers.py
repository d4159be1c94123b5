"""The layers of encoder and decoder against literal loops over the paper's equations (Zhu et al. 2020, 4.1)."""

import pytest
import torch
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from helpers import assert_close
from literal_layers import (
    BERT_PAD,
    JOINED,
    PAD,
    B,
    C,
    D,
    H,
    L,
    S,
    T,
    causal_mask,
    check_dropouts,
    decoder_layer,
    encoder_layer,
    literal_decoder_layer,
    literal_encoder_layer,
    literal_stacked_layer,
    states,
    stock_config,
)

NORMS = pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])


def pair_of(stock_class, make_layer, monkeypatch, normalize_before, unused=False):
    """Return fairseq's layer and ours with its parameters, of which drop-net takes the NMT branch alone."""
    monkeypatch.setattr(torch, "rand", lambda size: torch.zeros(size))
    stock = stock_class(stock_config(normalize_before)).double().train()
    layer = make_layer(fusion={"p_net": 1.0}, normalize_before=normalize_before).train()
    missing, unexpected = layer.load_state_dict(stock.state_dict(), strict=False)
    assert missing
    assert all(name.startswith("bert_attn.") for name in missing)
    assert bool(unexpected) == unused
    return stock, layer


@NORMS
@pytest.mark.parametrize("need_attn", [False, True])
@pytest.mark.parametrize("name", JOINED)
def test_fusions_of_two_branches_equal_their_formula_in_the_decoder(monkeypatch, name, need_attn, normalize_before):
    fusion, u, join = JOINED[name]
    decoder = decoder_layer(fusion=fusion, normalize_before=normalize_before).train(u is not None)
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    s, h, bert = states(T, B, C), states(S, B, C), states(L, B, D)
    actual, *weights = decoder(s, h, PAD, bert, BERT_PAD, self_attn_mask=causal_mask(), need_attn=need_attn)
    assert_close(actual, literal_decoder_layer(decoder, s, h, bert, join), atol=1e-10)
    if not need_attn:
        assert weights == [None, None]
    elif u is None:
        assert [attn.shape for attn in weights] == [(H, B, T, S), (H, B, T, L)]
        assert_close(weights[1].sum(-1), torch.ones(H, B, T).double())
        assert weights[1][:, 0, :, L - 3 :].eq(0).all()


@NORMS
@pytest.mark.parametrize("bert_first", [True, False], ids=["bert-first", "encoder-first"])
def test_stacked_fusion_is_one_sublayer_after_the_other_in_the_decoder(bert_first, normalize_before):
    changed = {"fusion": {"kind": "stacked", "bert_first": bert_first}, "normalize_before": normalize_before}
    decoder = decoder_layer(**changed).eval()
    h, s, bert = states(S, B, C), states(T, B, C), states(L, B, D)

    to_target = (decoder.self_attn, decoder.self_attn_layer_norm, None, None)
    to_bert = (decoder.bert_attn, decoder.bert_attn_layer_norm, bert, BERT_PAD)
    to_encoder = (decoder.encoder_attn, decoder.encoder_attn_layer_norm, h, PAD)
    steps = [to_target, to_bert, to_encoder] if bert_first else [to_target, to_encoder, to_bert]
    actual, _, _ = decoder(s, h, PAD, bert, BERT_PAD, self_attn_mask=causal_mask())
    assert_close(actual, literal_stacked_layer(decoder, s, steps), atol=1e-10)


@NORMS
def test_without_bert_the_layer_is_that_of_fairseq_in_the_decoder(monkeypatch, normalize_before):
    stock, layer = pair_of(TransformerDecoderLayerBase, decoder_layer, monkeypatch, normalize_before)
    h, s, bert = states(S, B, C), states(T, B, C), states(L, B, D)
    expected, _, _ = stock(s, h, PAD, self_attn_mask=causal_mask())
    actual, _, _ = layer(s, h, PAD, bert, BERT_PAD, self_attn_mask=causal_mask())
    assert_close(actual, expected)


def test_every_dropout_has_its_own_rate_and_the_layers_name():
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3}
    encoder, decoder = encoder_layer(**rates), decoder_layer(**rates)
    check_dropouts(encoder, [encoder.self_attn, encoder.bert_attn])
    check_dropouts(decoder, [decoder.self_attn, decoder.bert_attn, decoder.encoder_attn])


@NORMS
@pytest.mark.parametrize("name", JOINED)
def test_fusions_of_two_branches_equal_their_formula_in_the_encoder(monkeypatch, name, normalize_before):
    fusion, u, join = JOINED[name]
    encoder = encoder_layer(fusion=fusion, normalize_before=normalize_before).train(u is not None)
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    h, bert = states(S, B, C), states(L, B, D)
    keep = ~PAD.t()
    expected = literal_encoder_layer(encoder, h, bert, join)
    assert_close(encoder(h, PAD, bert, BERT_PAD)[keep], expected[keep], atol=1e-10)


@NORMS
@pytest.mark.parametrize("bert_first", [True, False], ids=["bert-first", "encoder-first"])
def test_stacked_fusion_is_one_sublayer_after_the_other_in_the_encoder(bert_first, normalize_before):
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
def test_without_bert_the_layer_is_that_of_fairseq_in_the_encoder(monkeypatch, normalize_before):
    # fairseq's encoder layer has parameters that never get a gradient
    stock, layer = pair_of(TransformerEncoderLayerBase, encoder_layer, monkeypatch, normalize_before, unused=True)
    h, bert = states(S, B, C), states(L, B, D)
    keep = ~PAD.t()
    expected = stock(h, PAD)
    assert_close(layer(h, PAD, bert, BERT_PAD)[keep], expected[keep], atol=1e-6)
