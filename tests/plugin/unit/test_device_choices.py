"""The order of weights in memory: fast for few rows, and of no influence on anything else."""

import copy

import pytest
import torch
from documentation import ROOT
from helpers import assert_close
from torch import nn

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.source import weights_fingerprint
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.modules.device_choices import lay_out_weights

MODELS = [(BertFusedModel, "fused"), (GruModel, "gru")]


def lie_by_columns(module):
    weights = [linear.weight for linear in module.modules() if isinstance(linear, nn.Linear)]
    found = {weight.t().is_contiguous() for weight in weights if min(weight.shape) > 1}
    assert len(found) == 1
    return found.pop()


def test_values_names_and_ties_stay():
    """Of a model whose output matrix is also the embeddings."""
    tied = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 5), nn.Linear(5, 4), nn.Linear(4, 7, bias=False))
    tied[3].weight = tied[0].weight
    before = {name: value.clone() for name, value in tied.state_dict().items()}
    parameters = list(tied.parameters())
    out = tied(torch.arange(7))
    for _ in range(2):
        lay_out_weights(tied)
        assert lie_by_columns(tied)
        assert all(old is new for old, new in zip(parameters, tied.parameters()))
        assert tied[3].weight is tied[0].weight
        assert list(tied.state_dict()) == list(before)
        assert all(torch.equal(tied.state_dict()[name], value) for name, value in before.items())
        assert_close(tied(torch.arange(7)), out)


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_a_model_that_translates_is_laid_out_for_its_number_format(model, name):
    hub = model.from_pretrained(str(ROOT / "tests" / "pinned" / name))
    assert lie_by_columns(hub.models[0])
    hub.double()
    assert not lie_by_columns(hub.models[0])
    hub.float()
    assert lie_by_columns(hub.models[0])


def test_a_model_that_trains_is_left_alone(build):
    assert not lie_by_columns(build(share_all_embeddings=True))


def test_bert_is_laid_out_before_it_is_copied_and_after_it_is_moved(bert_dir):
    bert = FrozenBert.from_pretrained(bert_dir)
    fingerprint = weights_fingerprint(bert)
    assert lie_by_columns(bert.model)
    other = copy.deepcopy(bert)
    assert lie_by_columns(other.model)
    assert not lie_by_columns(bert.double().model)
    assert lie_by_columns(bert.float().model)
    assert weights_fingerprint(bert) == fingerprint
