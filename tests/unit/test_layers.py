"""The layers against a literal loop over the paper's equations (Zhu et al. 2020, section 4.1)."""

import math

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from helpers import assert_close, randomise

from bert_fused_plugin.modules.bert_fused_decoder_layer import BertFusedDecoderLayer
from bert_fused_plugin.modules.bert_fused_encoder_layer import BertFusedEncoderLayer
from bert_fused_plugin.modules.fusion import FusionOptions

B, S, L, T, C, D, H, F = 2, 5, 7, 3, 8, 12, 2, 10
PAD = torch.tensor([[False] * S, [True] * 2 + [False] * (S - 2)])
BERT_PAD = torch.tensor([[False] * (L - 3) + [True] * 3, [False] * L])


def options(fusion=None, **changed):
    return {
        "embed_dim": C,
        "ffn_dim": F,
        "num_heads": H,
        "bert_dim": D,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "activation_fn": torch.relu,
        "normalize_before": False,
        "fusion": FusionOptions(**fusion or {}),
        **changed,
    }


def encoder_layer(**changed):
    layer = BertFusedEncoderLayer(**options(**changed)).double()
    randomise(layer)
    return layer


def decoder_layer(**changed):
    layer = BertFusedDecoderLayer(encoder_dim=C, **options(**changed)).double()
    randomise(layer)
    return layer


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
    return x + sublayer(norm(x)) if normalize_before else norm(x + sublayer(x))


def feed_forward(layer, x):
    return layer.fc2(torch.relu(layer.fc1(x)))


def weighted(w_other, w_bert):
    return lambda layer, other, bert: w_other * other + w_bert * bert


def gated(layer, other, bert):
    w, u = layer.fusion.mix.w, layer.fusion.mix.u
    gate = 1 / (1 + torch.exp(-(w.weight @ bert + w.bias + u.weight @ other)))
    return gate * bert + (1 - gate) * other


def literal_encoder_layer(layer, h, bert, join):
    """Every position of every sentence by itself; h (S, B, C), bert (L, B, D)."""
    pre = layer.normalize_before
    out = torch.empty_like(h)
    for b in range(B):
        keys = layer.self_attn_layer_norm(h[:, b]) if pre else h[:, b]
        for i in range(S):

            def fused(query, keys=keys, b=b):
                own = attend(layer.self_attn, query, keys, PAD[b])
                return join(layer, own, attend(layer.bert_attn, query, bert[:, b], BERT_PAD[b]))

            x = around(fused, h[i, b], layer.self_attn_layer_norm, pre)
            out[i, b] = around(lambda x: feed_forward(layer, x), x, layer.final_layer_norm, pre)
    return out


def literal_decoder_layer(layer, s, encoder, bert, join):
    pre = layer.normalize_before
    out = torch.empty_like(s)
    for b in range(B):
        keys = layer.self_attn_layer_norm(s[:, b]) if pre else s[:, b]
        for t in range(T):

            def own(query, keys=keys, t=t):
                return attend(layer.self_attn, query, keys[: t + 1], [False] * (t + 1))

            def fused(query, b=b):
                to_bert = attend(layer.bert_attn, query, bert[:, b], BERT_PAD[b])
                return join(layer, attend(layer.encoder_attn, query, encoder[:, b], PAD[b]), to_bert)

            x = around(own, s[t, b], layer.self_attn_layer_norm, pre)
            x = around(fused, x, layer.encoder_attn_layer_norm, pre)
            out[t, b] = around(lambda x: feed_forward(layer, x), x, layer.final_layer_norm, pre)
    return out


def literal_sublayer(attention, norm, x, keys, masked, pre, causal=False):
    """One attention with residual connection and layer norm; *keys* None: self-attention."""
    out = torch.empty_like(x)
    for b in range(x.size(1)):
        own = norm(x[:, b]) if pre else x[:, b]
        for i in range(x.size(0)):
            k = own if keys is None else keys[:, b]
            hidden = [causal and j > i for j in range(len(k))] if masked is None else masked[b]
            out[i, b] = around(lambda q, k=k, hidden=hidden: attend(attention, q, k, hidden), x[i, b], norm, pre)
    return out


def literal_stacked_layer(layer, x, steps):
    """Sub-layer after sub-layer; each step is (attention, norm, keys, padding mask)."""
    pre = layer.normalize_before
    for attention, norm, keys, masked in steps:
        x = literal_sublayer(attention, norm, x, keys, masked, pre, causal=True)
    return around(lambda x: feed_forward(layer, x), x, layer.final_layer_norm, pre)


def states(*sizes):
    return torch.randn(*sizes, dtype=torch.double)


def causal_mask():
    return torch.full((T, T), -torch.inf, dtype=torch.double).triu(1)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
def test_encoder_layer_equals_the_equations(normalize_before):
    layer = encoder_layer(normalize_before=normalize_before).eval()
    h, bert = states(S, B, C), states(L, B, D)
    actual = layer(h, PAD, bert, BERT_PAD)
    expected = literal_encoder_layer(layer, h, bert, weighted(0.5, 0.5))
    keep = ~PAD.t()
    assert_close(actual[keep], expected[keep], atol=1e-10)


@pytest.mark.parametrize("need_attn", [False, True])
@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
def test_decoder_layer_equals_the_equations(normalize_before, need_attn):
    layer = decoder_layer(normalize_before=normalize_before).eval()
    s, encoder, bert = states(T, B, C), states(S, B, C), states(L, B, D)
    actual, attn, bert_attn = layer(s, encoder, PAD, bert, BERT_PAD, self_attn_mask=causal_mask(), need_attn=need_attn)
    assert_close(actual, literal_decoder_layer(layer, s, encoder, bert, weighted(0.5, 0.5)), atol=1e-10)
    if need_attn:
        assert attn.shape == (H, B, T, S)
        assert bert_attn.shape == (H, B, T, L)
        assert_close(bert_attn.sum(-1), torch.ones(H, B, T).double())
        assert bert_attn[:, 0, :, L - 3 :].eq(0).all()
    else:
        assert attn is None
        assert bert_attn is None


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize(
    ("fusion", "join"),
    [({"weights": (0.7, 0.2)}, weighted(0.7, 0.2)), ({"kind": "gated"}, gated)],
    ids=["branch weights", "gated"],
)
def test_fusions_of_two_branches_equal_their_formula(fusion, join, normalize_before):
    encoder, decoder = (
        make(fusion=fusion, normalize_before=normalize_before).eval() for make in (encoder_layer, decoder_layer)
    )
    h, s, bert = states(S, B, C), states(T, B, C), states(L, B, D)
    keep = ~PAD.t()
    expected = literal_encoder_layer(encoder, h, bert, join)
    assert_close(encoder(h, PAD, bert, BERT_PAD)[keep], expected[keep], atol=1e-10)
    actual, _, _ = decoder(s, h, PAD, bert, BERT_PAD, self_attn_mask=causal_mask())
    assert_close(actual, literal_decoder_layer(decoder, s, h, bert, join), atol=1e-10)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("bert_first", [True, False], ids=["bert-first", "encoder-first"])
def test_stacked_fusion_is_one_sublayer_after_the_other(bert_first, normalize_before):
    changed = {"fusion": {"kind": "stacked", "bert_first": bert_first}, "normalize_before": normalize_before}
    encoder, decoder = encoder_layer(**changed).eval(), decoder_layer(**changed).eval()
    h, s, bert = states(S, B, C), states(T, B, C), states(L, B, D)

    def in_order(layer, to_other):
        to_bert = (layer.bert_attn, layer.bert_attn_layer_norm, bert, BERT_PAD)
        return [to_bert, to_other] if bert_first else [to_other, to_bert]

    steps = in_order(encoder, (encoder.self_attn, encoder.self_attn_layer_norm, None, PAD))
    expected = literal_stacked_layer(encoder, h, steps)
    keep = ~PAD.t()
    assert_close(encoder(h, PAD, bert, BERT_PAD)[keep], expected[keep], atol=1e-10)

    own = (decoder.self_attn, decoder.self_attn_layer_norm, None, None)
    steps = [own, *in_order(decoder, (decoder.encoder_attn, decoder.encoder_attn_layer_norm, h, PAD))]
    actual, _, _ = decoder(s, h, PAD, bert, BERT_PAD, self_attn_mask=causal_mask())
    assert_close(actual, literal_stacked_layer(decoder, s, steps), atol=1e-10)


@pytest.mark.parametrize(
    ("u", "weights"),
    [(0.0, (1.0, 0.0)), (0.29, (1.0, 0.0)), (0.31, (0.5, 0.5)), (0.69, (0.5, 0.5)), (0.71, (0.0, 1.0))],
)
def test_drop_net_in_training_equals_the_three_cases_of_the_paper(monkeypatch, u, weights):
    """p_net = 0.6: U < 0.3 the NMT branch alone, U > 0.7 BERT's alone, else the mean."""
    encoder, decoder = (make(fusion={"p_net": 0.6}).train() for make in (encoder_layer, decoder_layer))
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    h, s, bert = states(S, B, C), states(T, B, C), states(L, B, D)
    keep = ~PAD.t()
    actual = encoder(h, PAD, bert, BERT_PAD)
    assert_close(actual[keep], literal_encoder_layer(encoder, h, bert, weighted(*weights))[keep], atol=1e-10)
    actual, _, _ = decoder(s, h, PAD, bert, BERT_PAD, self_attn_mask=causal_mask())
    assert_close(actual, literal_decoder_layer(decoder, s, h, bert, weighted(*weights)), atol=1e-10)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
def test_without_bert_the_layers_are_those_of_fairseq(monkeypatch, normalize_before):
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.embed_dim, side.ffn_embed_dim, side.attention_heads, side.normalize_before = C, F, H, normalize_before
    cfg.dropout = 0.0
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

    stock, layer = TransformerDecoderLayerBase(cfg).double(), decoder_layer(**changed).train()
    missing, unexpected = layer.load_state_dict(stock.state_dict(), strict=False)
    assert all(name.startswith("bert_attn.") for name in missing)
    assert unexpected == []
    s = states(T, B, C)
    expected, _, _ = stock.train()(s, h, PAD, self_attn_mask=causal_mask())
    actual, _, _ = layer(s, h, PAD, bert, BERT_PAD, self_attn_mask=causal_mask())
    assert_close(actual, expected)


def test_what_was_projected_before_takes_the_place_of_the_states():
    layer = decoder_layer().eval()
    s, encoder, bert = states(T, B, C), states(S, B, C), states(L, B, D)
    expected, _, _ = layer(s, encoder, PAD, bert, BERT_PAD, self_attn_mask=causal_mask())
    memories = layer.project(encoder, PAD, bert, BERT_PAD)
    actual, _, _ = layer(
        s, states(S, B, C), ~PAD, states(L, B, D), ~BERT_PAD, self_attn_mask=causal_mask(), memories=memories
    )
    assert_close(actual, expected, atol=1e-10)


@pytest.mark.parametrize("make", [encoder_layer, decoder_layer])
def test_every_dropout_has_its_own_rate_and_the_layers_name(make):
    """fairseq's --retain-dropout-modules asks for the name."""
    layer = make(dropout=0.1, attention_dropout=0.2, activation_dropout=0.3)
    attentions = [layer.self_attn, layer.bert_attn, *([layer.encoder_attn] if make is decoder_layer else [])]
    assert [attention.dropout_module.p for attention in attentions] == [0.2] * len(attentions)
    assert (layer.dropout_module.p, layer.activation_dropout_module.p) == (0.1, 0.3)
    for dropout in (layer.dropout_module, layer.activation_dropout_module):
        dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=["another"])
        assert not dropout.apply_during_inference
        dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=[type(layer).__name__])
        assert dropout.apply_during_inference


def test_the_encoder_may_have_another_width():
    layer = BertFusedDecoderLayer(encoder_dim=6, **options()).double().eval()
    encoder, s, bert = states(S, B, 6), states(T, B, C), states(L, B, D)
    actual, _, _ = layer(s, encoder, PAD, bert, BERT_PAD, self_attn_mask=causal_mask())
    assert_close(actual, literal_decoder_layer(layer, s, encoder, bert, weighted(0.5, 0.5)), atol=1e-10)
