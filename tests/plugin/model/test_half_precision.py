"""Models in half precision compute what they do in single precision, and their gradients are finite."""

from functools import partial

import pytest
import torch
from helpers import needs_half

from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss
from bert_fused_plugin.errors import BertFusedError

KINDS = [
    "drop-net", "without drop-net, weights", "gated, drop-net", "stacked", "mix", "random layer", "embedding, mix",
    "fine-tuned", "entmax, sparsemax", "gru: BERT", "gru: BERT, dot", "gru: BERT, entmax15", "gru: BERT, deep",
]  # fmt: skip
ROUNDING = {torch.bfloat16: 2**-8, torch.float16: 2**-11}
DTYPES = [torch.bfloat16, pytest.param(torch.float16, marks=needs_half)]


@pytest.fixture(params=KINDS)
def make(request, cases):
    """Build the model of a seed, again and again."""
    return partial(cases.model, request.param)


def step(model, cases, bert_out=None):
    """Return logits, loss and gradients of a training step."""
    batch = cases.batch(model)
    torch.manual_seed(5)
    logits, _ = model(**batch["net_input"], bert_out=bert_out)
    loss = label_smoothed_loss(logits, batch["target"], 0.1, cases.dictionary.pad())[0].sum()
    loss.backward()
    return logits, loss, {n: p.grad for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_training_step_is_near_that_in_single_precision(make, cases, dtype):
    logit_errors, gradient_errors = [], []
    for seed in range(3):
        expected, expected_loss, expected_grads = step(make(seed), cases)
        model = make(seed).to(dtype)
        assert {p.dtype for p in model.encoder.source.bert.model.parameters()} == {dtype}
        logits, loss, grads = step(model, cases)
        assert logits.dtype == dtype
        assert loss.dtype == torch.float32
        logit_errors.append(float((logits.float() - expected).abs().max() / expected.std()))
        assert loss.item() == pytest.approx(expected_loss.item(), rel=2 * ROUNDING[dtype])
        assert all(torch.isfinite(grad).all() for grad in grads.values())
        flat, expected_flat = (torch.cat([g[n].flatten().float() for n in grads]) for g in (grads, expected_grads))
        gradient_errors.append(float((flat - expected_flat).norm() / expected_flat.norm()))
    # rounding may send a unit to the other side of ReLU's or maxout's kink, so one seed in ten is far off
    assert min(logit_errors) < 18 * ROUNDING[dtype]
    assert min(gradient_errors) < 12 * ROUNDING[dtype]


def test_a_training_step_under_autocast(make, cases):
    """What --amp does on a GPU: parameters in single precision, products in half."""
    expected_loss = step(make(), cases)[1]
    model = make()
    with torch.autocast("cpu", torch.bfloat16):
        _, loss, grads = step(model, cases)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected_loss.item(), rel=8 * ROUNDING[torch.bfloat16])
    assert all(grad.dtype == torch.float32 and torch.isfinite(grad).all() for grad in grads.values())


@pytest.mark.parametrize("dtype", [torch.float32, *DTYPES])
@pytest.mark.parametrize("cached", [torch.float16, torch.float32])
def test_cached_states_are_read_in_any_precision(cases, dtype, cached):
    model = cases.model("without drop-net, weights")
    bert_out = cases.batch(model, cached=True)["net_input"]["bert_out"].to(cached)
    _, loss, grads = step(model.to(dtype), cases, bert_out)
    assert torch.isfinite(loss)
    assert {grad.dtype for grad in grads.values()} == {dtype}


LARGE = 70_000.0
REFUSED = "whose largest number is 65,504, and some states of --bert-model .* train with --bf16 or in single precision"


@needs_half
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])  # fairseq's trainer turns batches to half precision
@pytest.mark.parametrize("value", [LARGE, float("nan"), -LARGE])
def test_cached_states_beyond_half_precision_are_refused(cases, value, dtype):
    model = cases.model("parallel")
    bert_out = torch.zeros_like(cases.batch(model, cached=True)["net_input"]["bert_out"])
    step(model.half().eval(), cases, bert_out)
    bert_out[1, 0, 0] = value
    with pytest.raises(BertFusedError, match=REFUSED):
        step(model.train(), cases, bert_out.to(dtype))


def test_so_are_states_that_autocast_turns_to_half_precision(cases, monkeypatch):
    model = cases.model("parallel")
    step(model, cases)
    with torch.no_grad():
        model.encoder.source.bert.model.encoder.layer[-1].output.LayerNorm.bias.fill_(LARGE)
    for dtype in (torch.bfloat16, torch.float32):
        assert torch.isfinite(step(model.to(dtype), cases)[1])
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda: True)  # as --amp does on a GPU
    with pytest.raises(BertFusedError, match=REFUSED):
        step(model, cases)
