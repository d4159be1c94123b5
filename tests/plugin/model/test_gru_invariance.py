"""What drop-net computes of a recurrent model, and its limits; what all models do is in test_invariance.py."""

from argparse import Namespace

import pytest
import torch
from helpers import GRU_SIZES, SIZES, assert_close, criterion_of, make_gru, randomise, task_of

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel


@pytest.mark.parametrize("attention", ["additive", "none"])
@pytest.mark.parametrize(("u", "used"), [(0.1, ["attn"]), (0.5, ["attn", "bert_attn"]), (0.9, ["bert_attn"])])
def test_drop_net_computes_only_the_contexts_it_takes_and_every_parameter_gets_a_gradient(
    dictionary, bert_dir, cases, monkeypatch, u, used, attention
):
    options = {"bert_model": bert_dir, "bert_drop_net": 0.6, "bert_layer": "mix", "attention": attention}
    model = make_gru(dictionary, **options).train()
    randomise(model)
    projected = []
    model.decoder.cell.context_proj.register_forward_hook(lambda *_: projected.append(True))
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    source, target = cases.tokens()
    logits, extra = model(source, None, target)
    assert len(projected) == len(used)
    seen = [name for name in used if name == "bert_attn" or attention != "none"]
    assert [name for name in ("attn", "bert_attn") if extra[name] is not None] == seen
    logits.sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    model.decoder.branch_weights = {0.1: (1.0, 0.0), 0.5: (0.5, 0.5), 0.9: (0.0, 1.0)}[u]
    assert_close(model.eval()(source, None, target)[0], logits, atol=1e-5)


def test_a_row_of_padding_alone_is_finite(dictionary, cases):
    model = make_gru(dictionary)
    source, target = cases.tokens()
    source = torch.cat([source, torch.full_like(source[:1], dictionary.pad())])
    target = torch.cat([target, target[:1]])
    logits, _ = model(source, None, target)
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


@pytest.mark.parametrize(("kind", "sizes"), [(GruModel, GRU_SIZES), (BertFusedModel, SIZES)])
def test_targets_that_are_padded_on_the_left_are_refused(dictionary, bert_dir, kind, sizes):
    task = task_of(dictionary)
    vars(task.cfg).update(left_pad_target=True)
    with pytest.raises(BertFusedError, match=r"^--left-pad-target must be False, got True: .*; leave it out$"):
        kind.build_model(Namespace(**sizes, bert_model=bert_dir), task)


def test_alignments_are_refused_by_what_does_not_learn_from_them(dictionary, bert_dir):
    task = task_of(dictionary)
    vars(task.cfg).update(load_alignments=True)
    GruModel.build_model(Namespace(**GRU_SIZES), task)
    with pytest.raises(
        BertFusedError, match=r"^--load-alignments: a model without attention learns from no alignments"
    ):
        GruModel.build_model(Namespace(**GRU_SIZES, attention="none"), task)
    with pytest.raises(BertFusedError, match=r"^--load-alignments: this criterion does not learn from them"):
        criterion_of(task)
    with pytest.raises(BertFusedError, match=r"^--load-alignments: models with BERT learn from no alignments; leave"):
        GruModel.build_model(Namespace(**GRU_SIZES, bert_model=str(bert_dir)), task)
