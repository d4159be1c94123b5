"""The order of weights in memory: fast for few rows, and of no influence on anything else."""

import pytest
import torch
from documentation import ROOT
from helpers import assert_close
from torch import nn

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
