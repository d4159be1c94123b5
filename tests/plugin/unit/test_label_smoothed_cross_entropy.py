"""The criterion: what it sums, divides by and logs."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics
from fairseq.models import FairseqDecoder
from fairseq.tasks.translation import TranslationConfig
from helpers import assert_close, criterion_of, dictionary_of
from literal_loss import PAD, TARGET, B, T, V, literal_loss

from bert_fused_plugin.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropy,
    LabelSmoothedCrossEntropyConfig,
)
from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss
from bert_fused_plugin.errors import BertFusedError


class ConstantModel:
    def __init__(self, logits):
        self.logits = logits

    def __call__(self):
        return (self.logits,)

    def get_targets(self, sample, net_output):
        return sample["target"]


def make_criterion(eps=0.1, sentence_avg=False):
    task = SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: PAD))
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


@pytest.mark.parametrize("reduce", [True, False])
def test_a_model_without_scores_of_all_symbols_is_refused(reduce):
    model = ConstantModel(torch.randn(B, T, V))
    model.decoder = SimpleNamespace(adaptive_softmax=object())
    with pytest.raises(BertFusedError, match="softmax-cutoff does not compute; use --criterion adaptive_loss"):
        make_criterion()(model, {"net_input": {}, "target": TARGET, "ntokens": 5}, reduce=reduce)


def test_a_decoder_with_probabilities_of_its_own_is_refused():
    class CopyingDecoder(FairseqDecoder):
        def get_normalized_probs(self, net_output, log_probs, sample=None):
            return net_output[0]

    model = ConstantModel(torch.randn(B, T, V))
    model.decoder = CopyingDecoder(None)
    with pytest.raises(BertFusedError, match=r"CopyingDecoder.get_normalized_probs does not; use --criterion label_sm"):
        make_criterion()(model, {"net_input": {}, "target": TARGET, "ntokens": 5})


@pytest.mark.parametrize("consistency", ["none", "r-drop"])
def test_the_loss_of_a_dummy_batch_can_become_zero(cases, consistency):
    """As in fairseq's train_step, where a process of several has no batch left."""
    model = cases.model("parallel").train()
    loss, _, _ = criterion_of(cases.task, consistency=consistency)(model, cases.batch(model))
    loss *= 0
    loss.backward()
    assert not any(p.grad.any() for p in model.parameters() if p.grad is not None)


def test_a_criterion_of_ones_own_adds_a_setting():
    @dataclass
    class WeightedConfig(LabelSmoothedCrossEntropyConfig):
        weight: float = 0.5

    class Weighted(LabelSmoothedCrossEntropy):
        def __init__(self, task, label_smoothing, sentence_avg, weight):
            super().__init__(task, label_smoothing, sentence_avg)
            self.weight = weight

    task = SimpleNamespace(target_dictionary=dictionary_of("a"), cfg=TranslationConfig())
    cfg = WeightedConfig(label_smoothing=0.2, sentence_avg=True)
    built = Weighted.build_criterion(cfg, task)
    assert (built.eps, built.sentence_avg, built.weight) == (0.2, True, 0.5)


def test_metrics_are_in_bits_per_token_and_updates_weigh_by_their_size():
    logs = [
        {"loss": 8.0, "nll_loss": 4.0, "n_correct": 4, "ntokens": 4, "nsentences": 1, "sample_size": 5},
        {"loss": 2.0, "nll_loss": 3.0, "n_correct": 0, "ntokens": 2, "nsentences": 1, "sample_size": 3},
    ]
    for log, divergence in zip(logs, (3.0, 1.5)):
        log["divergence"] = divergence
    for updates in ([logs], [logs[:1], logs[1:]]):
        with metrics.aggregate() as seen:
            for update in updates:
                LabelSmoothedCrossEntropy.reduce_metrics(update)
        values = seen.get_smoothed_values()
        assert values["loss"] == round(10 / 8 / math.log(2), 3)
        assert values["nll_loss"] == round(7 / 6 / math.log(2), 3)
        assert values["divergence"] == round(4.5 / 6 / math.log(2), 3)
        assert values["ppl"] == round(math.exp(7 / 6), 2)
        assert values["accuracy"] == 66.667
