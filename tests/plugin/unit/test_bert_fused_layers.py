"""The layers of encoder and decoder against literal loops over the paper's equations (Zhu et al. 2020, 4.1)."""

import itertools
import math
import sys
from functools import partial

import pytest
import torch
from helpers import FORMULAS, Times, assert_close, randomise, weighted

from bert_fused_plugin.modules.cross_attention import project
from bert_fused_plugin.modules.fused_layer import BertFusedDecoderLayer, BertFusedEncoderLayer, LayerOptions
from bert_fused_plugin.modules.multihead_attention import Positions, attention_mask

B, S, L, T, C, D, H, F = 2, 5, 7, 3, 8, 12, 2, 10
PAD = torch.tensor([[False] * S, [True] * 2 + [False] * (S - 2)])
BERT_PAD = torch.tensor([[False] * (L - 3) + [True] * 3, [False] * L])
MASK, BERT_MASK = (attention_mask(padding, torch.double) for padding in (PAD, BERT_PAD))


def options(**changed):
    sizes = {"embed_dim": C, "ffn_dim": F, "num_heads": H, "bert_dim": D}
    rates = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)
    return LayerOptions(**{**sizes, **rates, "activation_fn": torch.relu, "normalize_before": False, **changed})


def made(layer):
    layer.double()
    randomise(layer)
    layer.dropout_module, layer.activation_dropout_module = Times(2.0), Times(3.0)
    return layer


def encoder_layer(**changed):
    return made(BertFusedEncoderLayer(options(**changed)))


def decoder_layer(**changed):
    return made(BertFusedDecoderLayer(options(**changed), encoder_dim=C))


def attend(attention, query, keys, masked):
    """attn(q, K, V) for one query vector and a list of key vectors, head by head."""
    q, width = attention.q_proj(query), C // H
    k, v = attention.k_proj(keys), attention.v_proj(keys)
    heads = []
    for h in range(H):
        part = slice(h * width, (h + 1) * width)
        energies = [
            math.exp(torch.dot(q[part], k[j, part]).item() / math.sqrt(width))
            for j in range(len(keys))
            if not masked[j]
        ]
        values = [v[j, part] for j in range(len(keys)) if not masked[j]]
        heads.append(sum(e / sum(energies) * value for e, value in zip(energies, values)))
    return attention.out_proj(torch.cat(heads))


def around(sublayer, x, norm, normalize_before):
    return x + 2 * sublayer(norm(x)) if normalize_before else norm(x + 2 * sublayer(x))


def feed_forward(layer, x):
    return layer.fc2(3 * torch.relu(layer.fc1(x)))


# for each case of a fusion of two branches: its options, drop-net's U in training, and the formula
JOINED = {
    **{kind: ({"fusion": kind}, None, formula) for kind, formula in FORMULAS.items()},
    "branch weights": ({"weights": (0.7, 0.2)}, None, weighted(0.7, 0.2)),
    # p_net = 0.6: U < 0.3 the NMT branch alone, U > 0.7 BERT's alone, else the mean
    **{
        f"U = {u}": ({"p_net": 0.6}, u, weighted(*weights))
        for u, weights in ((0.0, (1, 0)), (0.29, (1, 0)), (0.31, (0.5, 0.5)), (0.69, (0.5, 0.5)), (0.71, (0, 1)))
    },
}


def reads(attention, keys, masked):
    """Return attn(q, K, V) at position i of sentence b; *keys* None: K are the layer's own states.

    *masked* is the padding of the keys; None: the positions after i are masked.
    """

    def attended(query, own, b, i):
        k = own if keys is None else keys[b]
        return attend(attention, query, k, [j > i for j in range(len(k))] if masked is None else masked[b])

    return attended


def joined(join, layer, nmt, bert):
    return lambda query, **at: join(layer.mix, nmt(query, **at), bert(query, **at))


def literal_layer(layer, x, steps):
    """Sub-layer after sub-layer, every position of every sentence by itself; each step is (what it reads, norm)."""
    pre = layer.options.normalize_before
    for attended, norm in steps:
        out = torch.empty_like(x)
        for b, i in itertools.product(range(x.size(0)), range(x.size(1))):
            own = norm(x[b]) if pre else x[b]
            out[b, i] = around(partial(attended, own=own, b=b, i=i), x[b, i], norm, pre)
        x = out
    return around(partial(feed_forward, layer), x, layer.final_layer_norm, pre)


def states(*sizes):
    return torch.randn(*sizes, dtype=torch.double)


def encode(layer, h, bert):
    """Apply a layer of the encoder, and leave out what drop-net says."""
    nmt_alone, bert_alone = layer.drop_net()
    [memory] = project([None if nmt_alone else layer.bert_attn], bert, BERT_MASK)
    return layer(h, None if bert_alone else Positions(MASK), memory)


def decode(layer, s, h, bert, needed=(False, False)):
    """Apply a layer of the decoder, and leave out what drop-net says."""
    nmt_alone, bert_alone = layer.drop_net()
    [encoder_memory] = project([None if bert_alone else layer.encoder_attn], h, MASK)
    [bert_memory] = project([None if nmt_alone else layer.bert_attn], bert, BERT_MASK)
    return layer(s, encoder_memory, bert_memory, Positions(is_causal=True), needed)


NORMS = pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])


@NORMS
@pytest.mark.parametrize("name", JOINED)
def test_fusions_of_two_branches_equal_their_formula(monkeypatch, name, normalize_before):
    fusion, u, join = JOINED[name]
    changed = {**fusion, "normalize_before": normalize_before}
    encoder, decoder = (make(**changed).train(u is not None) for make in (encoder_layer, decoder_layer))
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    h, s, bert = states(B, S, C), states(B, T, C), states(B, L, D)
    keep = ~PAD

    nmt, to_bert = reads(encoder.self_attn, None, PAD), reads(encoder.bert_attn, bert, BERT_PAD)
    expected = literal_layer(encoder, h, [(joined(join, encoder, nmt, to_bert), encoder.self_attn_layer_norm)])
    assert_close(encode(encoder, h, bert)[keep], expected[keep], atol=1e-10)

    nmt, to_bert = reads(decoder.encoder_attn, h, PAD), reads(decoder.bert_attn, bert, BERT_PAD)
    to_target = reads(decoder.self_attn, None, None), decoder.self_attn_layer_norm
    fused = joined(join, decoder, nmt, to_bert), decoder.encoder_attn_layer_norm
    expected = literal_layer(decoder, s, [to_target, fused])
    for needed in itertools.product((False, True), repeat=2):
        actual, *weights = decode(decoder, s, h, bert, needed)
        assert_close(actual, expected, atol=1e-10)
        assert u is not None or [attn is not None for attn in weights] == [*needed]
    if u is None:
        assert [attn.shape for attn in weights] == [(B, H, T, S), (B, H, T, L)]
        assert_close(weights[1].sum(-1), torch.ones(B, H, T).double())
        assert weights[1][0, :, :, L - 3 :].eq(0).all()


@NORMS
@pytest.mark.parametrize("bert_first", [True, False], ids=["bert-first", "encoder-first"])
def test_stacked_fusion_is_one_sublayer_after_the_other(bert_first, normalize_before):
    changed = {"fusion": "stacked", "bert_first": bert_first, "normalize_before": normalize_before}
    encoder, decoder = encoder_layer(**changed).eval(), decoder_layer(**changed).eval()
    h, s, bert = states(B, S, C), states(B, T, C), states(B, L, D)
    keep, order = ~PAD, slice(None, None, 1 if bert_first else -1)

    to_bert = reads(encoder.bert_attn, bert, BERT_PAD), encoder.bert_attn_layer_norm
    to_source = reads(encoder.self_attn, None, PAD), encoder.self_attn_layer_norm
    expected = literal_layer(encoder, h, [to_bert, to_source][order])
    assert_close(encode(encoder, h, bert)[keep], expected[keep], atol=1e-10)

    to_target = reads(decoder.self_attn, None, None), decoder.self_attn_layer_norm
    to_bert = reads(decoder.bert_attn, bert, BERT_PAD), decoder.bert_attn_layer_norm
    to_encoder = reads(decoder.encoder_attn, h, PAD), decoder.encoder_attn_layer_norm
    actual, _, _ = decode(decoder, s, h, bert)
    expected = literal_layer(decoder, s, [to_target, *[to_bert, to_encoder][order]])
    assert_close(actual, expected, atol=1e-10)


def test_every_dropout_has_its_own_rate_and_the_layers_name():
    """fairseq's --retain-dropout-modules asks for the layer's name."""
    rates = options(dropout=0.1, attention_dropout=0.2, activation_dropout=0.3)
    for layer, number in ((BertFusedEncoderLayer(rates), 2), (BertFusedDecoderLayer(rates, encoder_dim=C), 3)):
        attentions = [module for name, module in layer.named_children() if name.endswith("_attn")]
        assert len(attentions) == number
        assert {attention.dropout_module.p for attention in attentions} == {0.2}
        assert (layer.dropout_module.p, layer.activation_dropout_module.p) == (0.1, 0.3)
        for dropout in (layer.dropout_module, layer.activation_dropout_module):
            dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=["another"])
            assert not dropout.apply_during_inference
            dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=[type(layer).__name__])
            assert dropout.apply_during_inference


def test_a_layer_of_the_encoder_calls_at_most_five_functions_deep():
    """So a reader can follow the formula."""
    layer, depth, deepest = encoder_layer().eval(), 0, 0
    [memory] = project([layer.bert_attn], states(B, L, D), BERT_MASK)

    def profile(frame, event, _):
        nonlocal depth, deepest
        if "bert_fused_plugin/modules" in frame.f_code.co_filename and event in ("call", "return"):
            depth += 1 if event == "call" else -1
            deepest = max(deepest, depth)

    x = states(B, S, C)
    sys.setprofile(profile)
    try:
        layer(x, Positions(MASK), memory)
    finally:
        sys.setprofile(None)
    assert 0 < deepest <= 5
