"""Each model trains on the pretend GPU as on the CPU, and the host waits no more often than with fairseq's model."""

from contextlib import nullcontext
from typing import NamedTuple

import pytest
import torch
from helpers import needs_half
from model_cases import CACHED, MODELS, STOCK
from pretend import assert_alike, needs_pretend_gpu, pretend_gpu

from bert_fused_plugin.errors import BertFusedError

pytestmark = needs_pretend_gpu
SLOW = ("gru: entmax", "gru: BERT, entmax15")  # the other models have their operations
ALL = [pytest.param(name, False, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODELS]
ALL += [(name, True) for name in CACHED]
_trainings = {}


class Training(NamedTuple):
    """The loss and the gradients of two updates, the parameters after them, and the waits and copies of the second."""

    numbers: dict
    waits: dict
    copies: dict


def train(cases, name, cached, on_gpu):
    """Return the training of this model on the pretend GPU or on the CPU; it is made once."""
    if (name, cached, on_gpu) not in _trainings:
        model = cases.model(name).train()
        batch = cases.batch(model, cached)
        torch.manual_seed(5)
        with pretend_gpu() if on_gpu else nullcontext() as gpu:
            if on_gpu:
                model, batch = gpu.put(model), gpu.put(batch)
            optimizer = cases.optimizer(model)
            first = cases.train(model, batch, optimizer)
            with gpu.recording() if on_gpu else nullcontext():
                second = cases.train(model, batch, optimizer)
            numbers = {"1": first, "2": second, "end": {name: p.detach() for name, p in model.named_parameters()}}
        counts = (dict(gpu.waits), dict(gpu.copies)) if on_gpu else ({}, {})
        _trainings[name, cached, on_gpu] = Training(numbers, *counts)
    return _trainings[name, cached, on_gpu]


def waits_of_stock(cases):
    return sum(train(cases, STOCK, False, True).waits.values())


@pytest.mark.parametrize(("name", "cached"), ALL)
def test_training_is_that_on_the_cpu(cases, name, cached):
    seen, expected = (train(cases, name, cached, on_gpu).numbers for on_gpu in (True, False))
    assert_alike(seen, expected)


@pytest.mark.parametrize(("name", "cached"), ALL)
def test_an_update_waits_no_more_often_than_with_fairseqs_transformer_and_copies_nothing(cases, name, cached):
    training = train(cases, name, cached, on_gpu=True)
    assert sum(training.waits.values()) <= waits_of_stock(cases), training.waits
    ours = [line for line in training.waits if "bert_fused_plugin" in line]
    assert all("gru_bahdanau/encoder.py" in line for line in ours)  # torch sorts sentences by length on the CPU
    assert not training.copies


# --- half precision


def half(cases, kind, state, training):
    """Return a model in half precision, whose BERT has states of this size, and a batch."""
    model = cases.model(kind)
    set_state(model, state)
    return model.half().train(training), cases.batch(model)


def set_state(model, state):
    model.encoder.source.bert.model.encoder.layer[-1].output.LayerNorm.bias.data.fill_(state)


REFUSED = "largest number is 65,504, and some states of --bert-model .* in a batch are larger"


@needs_half
@pytest.mark.parametrize("kind", ["parallel", "gru: BERT"])
def test_states_beyond_half_precision_are_refused_in_the_first_batch_of_a_training(cases, kind):
    model, batch = half(cases, kind, 70_000.0, training=True)
    with pretend_gpu() as gpu:
        model, batch = gpu.put(model), gpu.put(batch)
        for _ in range(2):
            with pytest.raises(BertFusedError, match=REFUSED):
                model(**batch["net_input"])
        set_state(model, 0.5)
        model(**batch["net_input"])  # what was refused once is not refused again
        with gpu.recording():
            model(**batch["net_input"])
        assert not any("check_half_range" in line for line in gpu.waits)
        assert sum(gpu.waits.values()) <= waits_of_stock(cases)
        set_state(model, float("inf"))
        with pytest.raises(BertFusedError, match=REFUSED):  # in evaluation, every batch is checked
            model.eval()(**batch["net_input"])
