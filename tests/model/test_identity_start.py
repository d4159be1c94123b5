"""--bert-identity-start: BERT's branch begins as nothing, so that the first step computes the baseline."""

import pytest
import torch
from warm_start_helpers import LARGER, PRE_NORM, REORDERED, assert_same_logits, logits


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
    assert fusion.get("bert_fusion") == "stacked" or all(layer.fusion.mix.weights == (1.0, 1.0) for layer in layers)
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


@pytest.mark.parametrize("weights", ["1,0.3", "1,-1"])
def test_identity_start_takes_any_weight_of_berts_branch(stock, save, start, dictionary, weights):
    baseline = stock()
    model = start(save(baseline), bert_identity_start=True, bert_branch_weights=weights)
    assert_same_logits(model, baseline, dictionary)
