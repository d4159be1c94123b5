import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics
from helpers import assert_close

from bert_fused_plugin.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropy
from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss
from bert_fused_plugin.errors import BertFusedError

B, T, V, PAD = 2, 3, 11, 1
TARGET = torch.tensor([[4, 2, 9], [5, 2, PAD]])


def literal_loss(logits, target, eps):
    """L = sum_i (1 - eps) H(p, q) + eps H(U, q), symbol by symbol."""
    total = 0.0
    for row, symbol in zip(logits.reshape(-1, V), target.reshape(-1)):
        if symbol == PAD:
            continue
        q = [math.exp(x) / sum(math.exp(y) for y in row.tolist()) for x in row.tolist()]
        total += (1 - eps) * -math.log(q[symbol]) + eps * sum(-math.log(x) / V for x in q)
    return total


@pytest.mark.parametrize("eps", [0.0, 0.1, 0.5])
def test_loss_equals_the_formula_and_torchs_own(eps):
    logits = torch.randn(B, T, V, dtype=torch.double) * 3
    loss, nll_loss, _ = label_smoothed_loss(logits, TARGET, eps, PAD)
    assert loss.sum().item() == pytest.approx(literal_loss(logits, TARGET, eps), rel=1e-5)
    expected = F.cross_entropy(
        logits.view(-1, V), TARGET.view(-1), ignore_index=PAD, reduction="none", label_smoothing=eps
    )
    assert_close(loss.view(-1), expected)
    assert nll_loss.sum().item() == pytest.approx(literal_loss(logits, TARGET, 0.0), rel=1e-5)


def test_gradient_is_softmax_minus_smoothed_target_and_zero_at_padding():
    logits = torch.randn(B, T, V, requires_grad=True)
    label_smoothed_loss(logits, TARGET, 0.1, PAD)[0].sum().backward()
    expected = logits.softmax(-1) - 0.9 * F.one_hot(TARGET, V) - 0.1 / V
    expected[1, 2] = 0
    assert_close(logits.grad, expected.detach())


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_gradient_equals_torchs_own_in_double_precision(eps):
    logits = (torch.randn(B, T, V, dtype=torch.double) * 3).requires_grad_()
    weights = torch.randn(B, T, dtype=torch.double)
    (label_smoothed_loss(logits, TARGET, eps, PAD)[0] * weights).sum().backward()
    again = logits.detach().requires_grad_()
    loss = F.cross_entropy(
        again.view(-1, V), TARGET.view(-1), ignore_index=PAD, reduction="none", label_smoothing=eps
    ).view(B, T)
    (loss * weights).sum().backward()
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


def test_a_second_backward_is_refused_not_wrong():
    logits = torch.randn(B, T, V, requires_grad=True)
    loss = label_smoothed_loss(logits, TARGET, 0.1, PAD)[0].sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_padded_batch_costs_the_sum_of_its_sentences():
    logits = torch.randn(B, T, V)
    together = label_smoothed_loss(logits, TARGET, 0.1, PAD)[0].sum()
    alone = label_smoothed_loss(logits[:1], TARGET[:1], 0.1, PAD)[0].sum()
    alone = alone + label_smoothed_loss(logits[1:, :2], TARGET[1:, :2], 0.1, PAD)[0].sum()
    assert_close(together, alone)


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[[1e4, -1e4, 0.0]]], requires_grad=True)
    loss, _, _ = label_smoothed_loss(logits, torch.tensor([[1]]), 0.1, padding_idx=0)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(logits.grad).all()


def test_accuracy_counts_the_best_symbols_without_padding():
    logits = torch.full((B, T, V), -1.0)
    for b, t, symbol in ((0, 0, 4), (0, 1, 3), (0, 2, 9), (1, 0, 5), (1, 1, 2), (1, 2, PAD)):
        logits[b, t, symbol] = 1.0
    correct = label_smoothed_loss(logits, TARGET, 0.1, PAD)[2]
    assert correct.tolist() == [[True, False, True], [True, True, False]]


class FakeDictionary:
    def pad(self):
        return PAD

    def __len__(self):
        return V


class ConstantModel:
    def __init__(self, logits):
        self.logits = logits

    def __call__(self):
        return (self.logits,)

    def get_targets(self, sample, net_output):
        return sample["target"]


def make_criterion(eps=0.1, sentence_avg=False):
    task = SimpleNamespace(target_dictionary=FakeDictionary())
    return LabelSmoothedCrossEntropy(task, eps, sentence_avg)


@pytest.mark.parametrize(("sentence_avg", "divisor"), [(False, 5), (True, 2)])
def test_forward_logs_sums_and_divides_by_tokens_or_sentences(sentence_avg, divisor):
    logits = torch.randn(B, T, V)
    sample = {"net_input": {}, "target": TARGET, "ntokens": 5}
    loss, sample_size, log = make_criterion(0.1, sentence_avg)(ConstantModel(logits), sample)
    assert sample_size == divisor
    assert_close(log["loss"], loss)
    assert loss.item() == pytest.approx(literal_loss(logits, TARGET, 0.1), rel=1e-5)
    assert log["nll_loss"].item() == pytest.approx(literal_loss(logits, TARGET, 0.0), rel=1e-5)
    assert log["n_correct"] == (logits.argmax(-1) == TARGET)[TARGET != PAD].sum()
    assert (log["ntokens"], log["nsentences"], log["sample_size"]) == (5, 2, divisor)


def test_forward_gives_the_loss_of_each_token_where_it_is_not_to_reduce():
    logits = torch.randn(B, T, V)
    sample = {"net_input": {}, "target": TARGET, "ntokens": 5}
    loss, _, _ = make_criterion()(ConstantModel(logits), sample, reduce=False)
    assert torch.equal(loss, label_smoothed_loss(logits, TARGET, 0.1, PAD)[0])


def test_updates_weigh_by_their_size():
    logs = [
        {"loss": 8.0, "nll_loss": 4.0, "n_correct": 3, "ntokens": 4, "nsentences": 1, "sample_size": 5},
        {"loss": 2.0, "nll_loss": 3.0, "n_correct": 0, "ntokens": 2, "nsentences": 1, "sample_size": 3},
    ]
    with metrics.aggregate() as one_by_one:
        for log in logs:
            LabelSmoothedCrossEntropy.reduce_metrics([log])
    with metrics.aggregate() as together:
        LabelSmoothedCrossEntropy.reduce_metrics(logs)
    assert one_by_one.get_smoothed_values() == pytest.approx(together.get_smoothed_values())


def test_metrics_are_in_bits_per_token():
    logs = [
        {"loss": 8.0, "nll_loss": 4.0, "n_correct": 4, "ntokens": 4, "nsentences": 1, "sample_size": 4},
        {"loss": 4.0, "nll_loss": 2.0, "n_correct": 0, "ntokens": 2, "nsentences": 1, "sample_size": 2},
    ]
    with metrics.aggregate() as seen:
        LabelSmoothedCrossEntropy.reduce_metrics(logs)
    values = seen.get_smoothed_values()
    assert values["loss"] == round(2 / math.log(2), 3)
    assert values["nll_loss"] == round(1 / math.log(2), 3)
    assert values["ppl"] == round(math.e, 2)
    assert values["accuracy"] == 66.667


def test_without_smoothing_the_loss_is_the_cross_entropy():
    sample = {"net_input": {}, "target": TARGET, "ntokens": 5}
    loss, _, log = make_criterion(0.0)(ConstantModel(torch.randn(B, T, V)), sample)
    assert loss == log["nll_loss"]


@pytest.mark.parametrize("eps", [-0.1, 1.0])
def test_smoothing_out_of_range_is_refused(eps):
    with pytest.raises(BertFusedError, match=r"--label-smoothing must be in \[0, 1\)"):
        make_criterion(eps)


def test_an_adaptive_softmax_is_refused():
    sample = {"net_input": {}, "target": TARGET, "ntokens": 5}
    with pytest.raises(BertFusedError, match="leave that out, or take --criterion adaptive_loss"):
        make_criterion()(ConstantModel(torch.randn(B, T, V - 1)), sample)
