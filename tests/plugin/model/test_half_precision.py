"""Models in half precision compute what they do in single precision, and their gradients are finite."""

import pytest
import torch
from helpers import encode, make_gru, needs_half, pad, randomise

from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss
from bert_fused_plugin.errors import BertFusedError

LINES = ["the old man sees a small dog .", "a dog", "play@@ house ? the hou@@ se , the red apple .", ""]
KINDS = {
    "parallel": {"bert_drop_net": 0.0},
    "drop-net": {"bert_drop_net": 1.0},
    "gated": {"bert_fusion": "gated", "bert_drop_net": 0.0},
    "stacked": {"bert_fusion": "stacked"},
    "mix": {"bert_layer": "mix"},
    "random layer": {"bert_layer": "random:2"},
    "embedding": {"bert_fusion": "embedding", "layernorm_embedding": True},
    "finetune": {"bert_finetune": True},
    "sparsemax, entmax": {"bert_drop_net": 0.0, "attention_map": "sparsemax", "self_attention_map": "entmax"},
    "gru": {"bert_drop_net": 0.0},
    "gru, dot": {"attention": "dot"},
    "gru, entmax15": {"attention_map": "entmax15"},
    "gru, entmax, deep": {"attention_map": "entmax", "bert_layer": "mix", "decoder_layers": 2, "encoder_layers": 2},
}
ROUNDING = {torch.bfloat16: 2**-8, torch.float16: 2**-11}
DTYPES = [torch.bfloat16, pytest.param(torch.float16, marks=needs_half)]


@pytest.fixture(params=KINDS)
def make(request, build, dictionary, bert_dir):
    """Build the model of a seed, again and again."""

    def make(seed=3):
        torch.manual_seed(seed)
        options = KINDS[request.param]
        if request.param.startswith("gru"):
            model = make_gru(dictionary, bert_model=bert_dir, **options)
        else:
            model = build(**options)
        for name, parameter in model.named_parameters():
            if not name.startswith("encoder.bert."):
                torch.nn.init.normal_(parameter, std=0.3)
        return model

    return make


def step(model, dictionary, bert_out=None):
    """Return logits, loss and gradients of a training step."""
    src_tokens = pad([encode(dictionary, line) for line in LINES], dictionary.pad(), left=True)
    target = pad([encode(dictionary, line) for line in reversed(LINES)], dictionary.pad(), left=False)
    prev = torch.cat([torch.full((len(LINES), 1), dictionary.eos()), target[:, :-1]], dim=1)
    torch.manual_seed(5)
    logits, _ = model(src_tokens, None, prev, bert_out=bert_out)
    loss = label_smoothed_loss(logits, target, 0.1, dictionary.pad())[0].sum()
    loss.backward()
    return logits, loss, {n: p.grad for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_training_step_is_near_that_in_single_precision(make, dictionary, dtype):
    gradient_errors = []
    for seed in range(3):
        expected, expected_loss, expected_grads = step(make(seed), dictionary)
        model = make(seed).to(dtype)
        assert {p.dtype for p in model.encoder.source.bert.model.parameters()} == {dtype}
        logits, loss, grads = step(model, dictionary)
        assert logits.dtype == dtype
        assert loss.dtype == torch.float32
        size = expected.std()
        torch.testing.assert_close(logits.float() / size, expected / size, atol=24 * ROUNDING[dtype], rtol=0)
        assert loss.item() == pytest.approx(expected_loss.item(), rel=2 * ROUNDING[dtype])
        assert all(torch.isfinite(grad).all() for grad in grads.values())
        flat, expected_flat = (torch.cat([g[n].flatten().float() for n in grads]) for g in (grads, expected_grads))
        gradient_errors.append(float((flat - expected_flat).norm() / expected_flat.norm()))
    # rounding may send a unit to the other side of ReLU's or maxout's kink, so one seed in ten is far off
    assert min(gradient_errors) < 12 * ROUNDING[dtype]


def test_a_training_step_under_autocast(make, dictionary):
    """What --amp does on a GPU: parameters in single precision, products in half."""
    expected_loss = step(make(), dictionary)[1]
    model = make()
    with torch.autocast("cpu", torch.bfloat16):
        _, loss, grads = step(model, dictionary)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected_loss.item(), rel=8 * ROUNDING[torch.bfloat16])
    assert all(grad.dtype == torch.float32 and torch.isfinite(grad).all() for grad in grads.values())


@pytest.mark.parametrize("dtype", [torch.float32, *DTYPES])
@pytest.mark.parametrize("cached", [torch.float16, torch.float32])
def test_cached_states_are_read_in_any_precision(build, dictionary, dtype, cached):
    model = build(bert_drop_net=0.0)
    randomise(model)
    tokens = model.encoder.source.bridge.bert_tokens(
        pad([encode(dictionary, line) for line in LINES], dictionary.pad(), left=True)
    )
    bert_out = model.encoder.source.bert(tokens).to(cached)
    _, loss, grads = step(model.to(dtype), dictionary, bert_out)
    assert torch.isfinite(loss)
    assert {grad.dtype for grad in grads.values()} == {dtype}


LARGE = 70_000.0
REFUSED = "whose largest number is 65,504, and some states of --bert-model .* train with --bf16 or in single precision"


@needs_half
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])  # fairseq's trainer turns batches to half precision
@pytest.mark.parametrize("value", [LARGE, float("nan"), -LARGE])
def test_cached_states_beyond_half_precision_are_refused(build, dictionary, value, dtype):
    model = build()
    tokens = model.encoder.source.bridge.bert_tokens(
        pad([encode(dictionary, line) for line in LINES], dictionary.pad(), left=True)
    )
    bert_out = torch.zeros(*tokens.shape, model.encoder.source.bert.dim)
    step(model.half().eval(), dictionary, bert_out)
    bert_out[1, 0, 0] = value
    with pytest.raises(BertFusedError, match=REFUSED):
        step(model.train(), dictionary, bert_out.to(dtype))


def test_so_are_states_that_autocast_turns_to_half_precision(build, dictionary, monkeypatch):
    model = build()
    step(model, dictionary)
    with torch.no_grad():
        model.encoder.source.bert.model.encoder.layer[-1].output.LayerNorm.bias.fill_(LARGE)
    for dtype in (torch.bfloat16, torch.float32):
        assert torch.isfinite(step(model.to(dtype), dictionary)[1])
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda: True)  # as --amp does on a GPU
    with pytest.raises(BertFusedError, match=REFUSED):
        step(model, dictionary)
