"""Consistency training of each family of models: what the second reading shares with the first, and what it lacks."""

from unittest.mock import patch

import pytest
import torch
from fairseq.modules import FairseqDropout
from helpers import criterion_of
from model_cases import LSTM, STOCK
from pretend import needs_pretend_gpu, pretend_gpu

NAMES = ["parallel", "drop-net", "embedding", "bert_decoder", "mix", "fine-tuned", "gru: BERT", STOCK, LSTM]


def step(cases, model, consistency, cached=False, **flags):
    """Return the loss, what was logged and the gradients of an update."""
    torch.manual_seed(7)
    model.zero_grad()
    loss, _, log = criterion_of(cases.task, consistency=consistency, **flags)(model, cases.batch(model, cached))
    loss.backward()
    return loss.item(), log, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("consistency", ["simcut", "r-drop"])
def test_all_parameters_learn_from_two_readings_that_differ(cases, name, consistency):
    model = cases.model(name).train()
    for module in model.modules():
        if isinstance(module, FairseqDropout):
            module.p = 0.2
    learning = step(cases, model, "none")[2]
    loss, log, grads = step(cases, model, consistency)
    assert log["divergence"] > 0
    assert loss == pytest.approx(log["loss"].item())
    assert grads.keys() == learning.keys()
    # transformers leaves hooks in BERT
    assert not any(module._forward_hooks for name, module in model.named_modules() if ".bert." not in name)


@pytest.mark.parametrize(
    ("name", "options"), [("parallel", {"bert_drop_net": 0.0}), ("gru: BERT", {}), ("fairseq's transformer", {})]
)
@pytest.mark.parametrize(("consistency", "cut"), [("simcut", {"cutoff": 0.0}), ("r-drop", {})])
def test_without_dropout_and_cuts_both_readings_agree(cases, name, options, consistency, cut):
    model = cases.model(name, **options)
    for module in model.modules():
        if isinstance(module, FairseqDropout):
            module.p = 0.0
    plain, _, grads = step(cases, model.train(), "none")
    loss, log, both = step(cases, model, consistency, **cut)
    assert log["divergence"] == 0
    assert loss == pytest.approx(plain)
    for key, grad in grads.items():
        torch.testing.assert_close(both[key], grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("consistency", ["simcut", "r-drop"])
def test_with_alpha_0_and_in_validation_a_batch_is_read_once(cases, consistency):
    model = cases.model("drop-net").train()
    plain, _, grads = step(cases, model, "none")
    loss, log, same = step(cases, model, consistency, consistency_alpha=0.0)
    assert loss == plain
    assert all(torch.equal(same[name], grad) for name, grad in grads.items())
    model.eval()
    criteria = [criterion_of(cases.task, consistency=name).eval() for name in ("none", consistency)]
    assert torch.equal(*(criterion(model, cases.batch(model))[0] for criterion in criteria))
    assert "divergence" not in log


@pytest.mark.parametrize("cached", [False, True])
def test_a_frozen_bert_reads_once_and_the_second_reading_lacks_some_of_its_states(cases, cached):
    model = cases.model("parallel").train()
    given, encoder = [], model.encoder.forward

    def watched(src_tokens, src_lengths=None, **inputs):
        given.append(inputs)
        return encoder(src_tokens, src_lengths, **inputs)

    with patch.object(model.encoder, "forward", watched), patch.object(model.encoder.source.bert, "_run") as run:
        run.side_effect = lambda inputs: model.encoder.source.bert.model(**inputs)
        batch = cases.batch(model, cached)
        run.reset_mock()
        criterion_of(cases.task, consistency="simcut", cutoff=0.5)(model, batch)
        assert run.call_count == (0 if cached else 1)
    first, second = (inputs["bert_out"] for inputs in given)
    gone = second.eq(0).all(-1)
    assert 0 < gone.sum() < gone.numel()
    assert torch.equal(first[~gone], second[~gone])


@needs_pretend_gpu
@pytest.mark.parametrize("consistency", ["simcut", "r-drop"])
@pytest.mark.parametrize("cached", [False, True])
def test_on_a_gpu_the_second_reading_waits_where_the_first_one_does_and_copies_nothing(cases, consistency, cached):
    seen = []
    for kind in ("none", consistency):
        model = cases.model("parallel").train()
        batch = cases.batch(model, cached)
        with pretend_gpu() as gpu:
            model, batch = gpu.put(model), gpu.put(batch)
            optimizer = cases.optimizer(model)
            cases.train(model, batch, optimizer, kind)
            with gpu.recording():
                cases.train(model, batch, optimizer, kind)
            seen.append((dict(gpu.waits), dict(gpu.copies)))
    (once, _), (twice, copies) = seen
    assert once.keys() == twice.keys()
    assert all(twice[place] <= times * (1 if "transformers" in place else 2) for place, times in once.items())
    assert not copies
