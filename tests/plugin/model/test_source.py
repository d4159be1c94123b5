"""The source of BERT and the encoder that registers its modules."""

import copy

import pytest
import torch
from helpers import make_gru

from bert_fused_plugin.bert.source import source_of


@pytest.fixture(params=["fused", "gru"])
def make(request, build, dictionary, bert_dir):
    """Build a model of one of the two kinds that read BERT."""
    if request.param == "fused":
        return build
    return lambda **options: make_gru(dictionary, bert_model=bert_dir, **options)


@pytest.mark.parametrize("finetune", [False, True])
def test_encoder_and_source_hold_the_same_modules_also_in_a_copy_that_has_moved(make, finetune):
    model = make(bert_layer="mix", bert_finetune=finetune)
    twin = copy.deepcopy(model).double()
    assert source_of(twin) is not source_of(model)
    for each, dtype in ((model, torch.float), (twin, torch.double)):
        encoder, source = each.encoder, source_of(each)
        assert encoder.bert is source.bert
        assert encoder.bert_record is source.record
        assert encoder.layer_mix is source.layer_mix
        assert source.bert.model.dtype == source.layer_mix.w.dtype == dtype


def test_models_without_bert_have_no_source(dictionary, stock):
    assert source_of(make_gru(dictionary)) is None
    assert source_of(stock()) is None
