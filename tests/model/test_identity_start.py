"""--bert-identity-start: BERT's branch begins as nothing, so that the first step computes the baseline."""

import pytest
import torch
from warm_start_helpers import LARGER, PRE_NORM, REORDERED, assert_same_logits, logits

from bert_fused_plugin.errors import BertFusedError


@pytest.mark.parametrize("dictionaries", [(None, None), (REORDERED, LARGER)], ids=["same", "remapped"])
@pytest.mark.parametrize(
    ("options", "fusion"),
    [
        ({}, {}),
        (PRE_NORM, {}),
        (PRE_NORM, {"bert_fusion": "stacked"}),
        (PRE_NORM, {"bert_fusion": "stacked", "bert_stack_order": "encoder-first"}),
        ({**PRE_NORM, "share_decoder_input_output_embed": True, "encoder_learned_pos": True}, {}),
        ({"layernorm_embedding": True, "no_scale_embedding": True, "activation_fn": "gelu"}, {"bert_layer": "mix"}),
    ],
)
def test_with_identity_start_the_first_step_computes_the_baseline(
    stock, save, start, dictionary, options, fusion, dictionaries
):
    baseline = stock(**options)
    model = start(save(baseline), *dictionaries, bert_identity_start=True, **options, **fusion)
    layers = [*model.encoder.layers, *model.decoder.layers]
    assert all(layer.bert_attn is not None for layer in layers)
    assert all(layer.fusion is None or layer.fusion.mix.weights == (1.0, 1.0) for layer in layers)
    assert_same_logits(model, baseline, dictionary, *dictionaries)


@pytest.mark.parametrize("options", [{}, {**PRE_NORM, "bert_fusion": "stacked"}], ids=["parallel", "stacked"])
def test_with_identity_start_the_first_update_changes_berts_branch(stock, save, start, dictionary, options):
    baseline = stock(**{name: value for name, value in options.items() if name in PRE_NORM})
    model = start(save(baseline), bert_identity_start=True, **options).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logits(model, dictionary).log_softmax(-1)[:, 5].sum().backward()
    optimizer.step()
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert layer.bert_attn.out_proj.weight.grad.abs().max() > 1e-4
        assert layer.bert_attn.out_proj.weight.abs().max() > 0


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ({"bert_fusion": "gated"}, ["is for --bert-fusion parallel and stacked, got gated, in which BERT's states"]),
        ({"bert_fusion": "embedding"}, ["is for --bert-fusion parallel and stacked, got embedding"]),
        (
            {"bert_fusion": "stacked"},
            ["stacked needs --encoder-normalize-before: after the", "stacked needs --decoder-normalize-before"],
        ),
        ({"bert_fusion": "stacked", "bert_attend": "encoder"}, ["stacked needs --encoder-normalize-before"]),
        (
            {"bert_fusion": "stacked", "encoder_normalize_before": True},
            ["stacked needs --decoder-normalize-before: after"],
        ),
        ({"bert_branch_weights": "0.5,0.5"}, ["needs weight 1 for the NMT branch, got --bert-branch-weights 0.5,0.5"]),
    ],
)
def test_identity_start_is_refused_where_berts_branch_cannot_begin_as_nothing(build, options, messages):
    with pytest.raises(BertFusedError) as caught:
        build(bert_identity_start=True, **options)
    assert len(caught.value.errors) == len(messages)
    for error, message in zip(caught.value.errors, messages):
        assert error.startswith("--bert-identity-start ")
        assert message in error


@pytest.mark.parametrize("weights", ["1,0.3", "1,-1"])
def test_identity_start_takes_any_weight_of_berts_branch(stock, save, start, dictionary, weights):
    baseline = stock()
    model = start(save(baseline), bert_identity_start=True, bert_branch_weights=weights)
    assert_same_logits(model, baseline, dictionary)
