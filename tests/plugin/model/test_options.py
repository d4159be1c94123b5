"""Each flag changes the computation as its definition says."""

import logging

import pytest
import torch
from fairseq.nan_detector import NanDetector
from helpers import Times, randomise


def logits(model, batch, **given):
    return model.eval()(*batch, **given)[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bert_fusion": "gated", "bert_layer": "random:2"}, ["layers 1, 2 of 2 (random:2)", "gated fusion"]),
        ({"bert_fusion": "stacked", "bert_attend": "decoder"}, ["stacked fusion"]),
        ({"bert_fusion": "embedding", "encoder_layers": 0}, ["embedding fusion, drop-net 0.0"]),
    ],
)
def test_the_log_says_what_is_fused(build, caplog, options, said):
    build(**options)
    assert all(words in caplog.text for words in said)


@pytest.mark.parametrize(
    ("options", "encoder", "decoder"),
    [
        ({}, [1, 1], [1, 1]),
        ({"bert_attend": "encoder"}, [1, 1], [0, 0]),
        ({"bert_attend": "decoder"}, [0, 0], [1, 1]),
        ({"bert_gates": "0,1"}, [0, 1], [0, 1]),
        ({"bert_gates": "1, 0"}, [1, 0], [1, 0]),
        ({"bert_gates": "0,1,1", "decoder_layers": 3}, [0, 1], [0, 1, 1]),
        ({"bert_gates": "0,1", "bert_attend": "decoder"}, [0, 0], [0, 1]),
    ],
)
def test_which_layers_attend_to_bert(build, source, batch, options, encoder, decoder):
    model = build(**options).eval()
    randomise(model)
    attending = [[layer.bert_attn is not None for layer in side.layers] for side in (model.encoder, model.decoder)]
    assert attending == [encoder, decoder]
    assert {key.split(".bert_attn")[0] for key in model.state_dict() if "bert_attn" in key} == {
        f"{side}.layers.{i}"
        for side, gates in (("encoder", encoder), ("decoder", decoder))
        for i, g in enumerate(gates)
        if g
    }
    bert_tokens = model.encoder.source.bridge.bert_tokens(source)
    own, other = (
        model.encoder(source, bert_tokens=tokens)["encoder_out"][0] for tokens in (bert_tokens, bert_tokens.flip(0))
    )
    assert torch.equal(own, other) == (not any(encoder))
    assert not torch.equal(logits(model, batch), logits(model, batch, bert_tokens=bert_tokens.flip(0)))


@pytest.mark.parametrize("last", ["activation_dropout", "relu_dropout"])
def test_the_rates_of_dropout_reach_the_embeddings_and_all_layers(build, batch, last):
    model = build(dropout=0.1, attention_dropout=0.2, **{last: 0.3})
    for side in (model.encoder, model.decoder):
        assert side.dropout_module.p == 0.1
        for layer in side.layers:
            rates = layer.dropout_module.p, layer.bert_attn.dropout_module.p, layer.activation_dropout_module.p
            assert rates == (0.1, 0.2, 0.3)
    seen = []
    for side in (model.encoder, model.decoder):
        side.dropout_module = Times(0.0)
        side.layers[0].register_forward_pre_hook(lambda _, given: seen.append(given[0].any().item()))
    logits(model, batch)
    assert seen == [False, False]


def test_special_tokens_are_masked_but_for_the_first_of_an_empty_line(build, source, batch):
    model = build(bert_mask_special_tokens=True)
    randomise(model)
    mask = model.encoder(source)["bert_padding_mask"][0]
    assert mask.tolist() == [
        [True, *[False] * 6, True],
        [True, False, False, *[True] * 5],
        [False, *[True] * 7],
    ]
    assert torch.isfinite(logits(model, batch)).all()
    # what BERT says of [CLS] and [SEP] no longer matters
    bert_tokens = model.encoder.source.bridge.bert_tokens(source)[:1]
    bert_out = model.encoder.source.bert(bert_tokens)
    changed = bert_out.clone()
    changed[:, 0] += 1
    changed[:, -1] += 1
    states = [
        model.encoder(source[:1], bert_tokens=bert_tokens, bert_out=out)["encoder_out"][0]
        for out in (bert_out, changed)
    ]
    assert torch.equal(*states)


def test_fairseqs_search_for_numbers_that_are_not_finite_names_their_layer(build, batch, caplog):
    model = build()
    model.decoder.layers[0].fc1.bias.data[0] = torch.nan
    with caplog.at_level(logging.WARNING), NanDetector(model):
        logits(model, batch)
    assert "NaN detected in output of decoder.layers.0.fc1" in caplog.text
