"""The loss with label smoothing, against torch's own, and as one function with the output matrix of some models."""

import pytest
import torch
import torch.nn.functional as F
from fairseq.distributed import DistributedTimeoutWrapper, LegacyDistributedDataParallel, ModuleProxyWrapper
from helpers import dictionary_of, make_gru
from literal_loss import PAD, TARGET, B, T, V
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bert_fused_plugin.criterions import smoothed_loss
from bert_fused_plugin.criterions.label_smoothed_cross_entropy import output_matrix
from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss, projected_loss
from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder

C = 3


def leaves(dtype=torch.double):
    torch.manual_seed(0)
    return [torch.randn(*size, dtype=dtype).requires_grad_() for size in ((B, T, C), (V, C))]


def together(features, matrix, eps=0.1, target=TARGET):
    return projected_loss(features, matrix, target, eps, PAD)


def apart(features, matrix, eps=0.1, target=TARGET):
    return [term.sum() for term in label_smoothed_loss(features @ matrix.t(), target, eps, PAD)]


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_loss_and_gradient_equal_torchs_own_in_double_precision(eps):
    logits = (torch.randn(B, T, V, dtype=torch.double) * 3).requires_grad_()
    weights = torch.randn(B, T, dtype=torch.double)
    actual = label_smoothed_loss(logits, TARGET, eps, PAD)[0]
    (actual * weights).sum().backward()
    again = logits.detach().requires_grad_()
    loss = F.cross_entropy(
        again.view(-1, V), TARGET.view(-1), ignore_index=PAD, reduction="none", label_smoothing=eps
    ).view(B, T)
    (loss * weights).sum().backward()
    torch.testing.assert_close(actual.detach(), loss.detach(), check_dtype=False)
    torch.testing.assert_close(logits.grad, again.grad, atol=1e-14, rtol=1e-12)


def test_half_precision_is_computed_in_single():
    logits = torch.randn(B, T, V).half().requires_grad_()
    loss, _, _ = label_smoothed_loss(logits, TARGET, 0.1, PAD)
    loss.sum().backward()
    single = logits.detach().float().requires_grad_()
    expected = label_smoothed_loss(single, TARGET, 0.1, PAD)[0]
    expected.sum().backward()
    assert loss.dtype == torch.float32
    assert torch.equal(loss, expected)
    assert logits.grad.dtype == torch.half
    assert torch.equal(logits.grad, single.grad.half())


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[[1e4, -1e4, 0.0]]], requires_grad=True)
    loss, _, _ = label_smoothed_loss(logits, torch.tensor([[1]]), 0.1, padding_idx=0)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(logits.grad).all()


# --- with the output matrix


@pytest.mark.parametrize("scores", [1, 4 * V, 10**6], ids=["C positions", "four positions", "all"])
@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_it_equals_the_loss_of_all_scores(monkeypatch, eps, scores):
    monkeypatch.setattr(smoothed_loss, "_CPU_SCORES", scores)
    ours, theirs = leaves(), leaves()
    found, expected = together(*ours, eps), apart(*theirs, eps)
    torch.testing.assert_close(torch.stack(found), torch.stack(expected).double(), atol=1e-12, rtol=1e-12)
    with torch.no_grad():
        assert torch.equal(torch.stack(together(*ours, eps)), torch.stack(found))
    (3 * found[0]).backward()
    (3 * expected[0]).backward()
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-12, rtol=1e-12)


def test_in_bfloat16_the_gradient_of_the_matrix_is_summed_in_single_precision(monkeypatch):
    monkeypatch.setattr(smoothed_loss, "_CPU_SCORES", V)  # a few positions at a time
    torch.manual_seed(0)
    target = torch.randint(2, V, (4, 300))
    half = [torch.randn(*size).bfloat16().requires_grad_() for size in ((4, 300, C), (V, C))]
    exact = [tensor.detach().double().requires_grad_() for tensor in half]
    for loss, given in ((together, half), (apart, exact)):
        loss(*given, target=target)[0].backward()
    error = (half[1].grad.double() - exact[1].grad).norm() / exact[1].grad.norm()
    assert error < 0.004  # half of the distance between two numbers in bfloat16


def test_a_matrix_that_is_also_the_embedding_gets_the_sum_of_both_gradients():
    grads = []
    for loss in (together, apart):
        embedding = leaves()[1]
        loss(embedding[TARGET], embedding)[0].backward()
        grads.append(embedding.grad)
    torch.testing.assert_close(*grads, atol=1e-12, rtol=1e-12)


def test_padding_alone_costs_nothing():
    ours = leaves()
    found = together(*ours, target=torch.full((B, T), PAD))
    found[0].backward()
    assert torch.stack(found).tolist() == [0, 0, 0]
    assert all(not leaf.grad.any() for leaf in ours)


@pytest.mark.parametrize("frozen", [0, 1], ids=["features", "matrix"])
def test_what_is_frozen_gets_no_gradient_and_the_other_one_the_same(frozen):
    ours, theirs = leaves(), leaves()
    for loss, both in ((together, ours), (apart, theirs)):
        both[frozen].requires_grad_(False)
        loss(*both)[0].backward()
        assert both[frozen].grad is None
    torch.testing.assert_close(ours[1 - frozen].grad, theirs[1 - frozen].grad, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("loss_of", [together, apart])
def test_a_second_backward_is_refused_not_wrong(loss_of):
    loss = loss_of(*leaves())[0]
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def gru_model(**decoder):
    """A tiny recurrent model with other attributes of its decoder."""
    model = make_gru(dictionary_of())
    for name, value in decoder.items():
        setattr(model.decoder, name, value)
    return model


def without_features():
    model = gru_model()
    model.forward = lambda: None
    return model


def hooked():
    model = gru_model()
    model.decoder.output_projection.register_forward_pre_hook(lambda module, inputs: None)
    return model


def wrapped(*kinds, **attributes):
    """A model in wrappers of these kinds, the outer ones first, which are not set up."""
    model = gru_model()
    for kind in reversed(kinds):
        wrapper = kind.__new__(kind)
        nn.Module.__init__(wrapper)
        wrapper.module = model
        vars(wrapper).update(attributes)
        model = wrapper
    return model


DDP = (ModuleProxyWrapper, DistributedDataParallel)


@pytest.mark.parametrize(
    "make",
    [
        gru_model,
        lambda: wrapped(*DDP, find_unused_parameters=False),
        lambda: wrapped(ModuleProxyWrapper, LegacyDistributedDataParallel),
        lambda: wrapped(DistributedTimeoutWrapper, *DDP, find_unused_parameters=False, _heartbeat_thread=None),
    ],
    ids=["alone", "DDP", "legacy DDP", "--heartbeat-timeout"],
)
def test_models_with_an_output_matrix_give_it(make):
    model = inner = make()
    while hasattr(inner, "module"):
        inner = inner.module
    assert output_matrix(model) is inner.decoder.output_projection.weight


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(2, 2),
        without_features,
        lambda: gru_model(__class__=type("Other", (GruDecoder,), {"output_layer": None})),
        hooked,
        lambda: gru_model().half(),
        lambda: gru_model(output_projection=nn.Linear(C, V)),
        lambda: gru_model(output_projection=None),
        lambda: wrapped(*DDP, find_unused_parameters=True),
        lambda: wrapped(nn.DataParallel),
    ],
    ids=["other", "no features", "scores", "hooks", "half", "bias", "adaptive", "unused", "wrapped"],
)
def test_other_models_give_none(make):
    assert output_matrix(make()) is None


def test_under_autocast_all_scores_have_to_be_there():
    with torch.autocast("cpu", torch.bfloat16):
        assert output_matrix(gru_model()) is None
