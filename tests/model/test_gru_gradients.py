"""Every parameter of a recurrent model gets a finite gradient, whatever drop-net draws."""

import pytest
import torch
from helpers import assert_close, make_gru, randomise
from recurrent_models import KINDS, WITH_BERT, make_batch, make_random_gru


@pytest.fixture(params=[*KINDS, *WITH_BERT])
def model(request, dictionary, bert_dir):
    return make_random_gru(request.param, dictionary, bert_dir)[0]


def test_every_parameter_gets_a_gradient(model, dictionary):
    source, target = make_batch(dictionary)
    model.train()(source, None, target)[0].sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize(("u", "used"), [(0.1, ["attn"]), (0.5, ["attn", "bert_attn"]), (0.9, ["bert_attn"])])
def test_drop_net_takes_one_context_whole_and_every_parameter_gets_a_gradient(
    dictionary, bert_dir, monkeypatch, u, used
):
    model = make_gru(dictionary, bert_model=bert_dir, bert_drop_net=0.6, bert_layer="mix", layer_norm=True).train()
    randomise(model)
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    source, target = make_batch(dictionary)
    logits, extra = model(source, None, target)
    assert [name for name in ("attn", "bert_attn") if extra[name] is not None] == used
    logits.sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    model.decoder.branch_weights = {0.1: (1.0, 0.0), 0.5: (0.5, 0.5), 0.9: (0.0, 1.0)}[u]
    assert_close(model.eval()(source, None, target)[0], logits, atol=1e-5)


@pytest.mark.parametrize("bert", [False, True])
def test_without_attention_there_are_no_annotations_to_normalise(dictionary, bert_dir, bert):
    options = {"bert_model": bert_dir} if bert else {}
    model = make_gru(dictionary, attention="none", layer_norm=True, **options).train()
    source, target = make_batch(dictionary)
    model(source, None, target)[0].sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_a_row_of_padding_alone_is_finite(dictionary):
    model = make_gru(dictionary)
    source, target = make_batch(dictionary)
    source = torch.cat([source, torch.full_like(source[:1], dictionary.pad())])
    target = torch.cat([target, target[:1]])
    logits, _ = model(source, None, target)
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
