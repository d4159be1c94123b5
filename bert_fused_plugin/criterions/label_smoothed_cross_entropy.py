"""Cross entropy with label smoothing over the whole vocabulary."""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple

from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from bert_fused_plugin.criterions.projected_loss import output_matrix, projected_loss
from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss
from bert_fused_plugin.errors import BertFusedError


@dataclass
class LabelSmoothedCrossEntropyConfig(FairseqDataclass):
    """The flags, which have the names of those of fairseq's own criterion."""

    label_smoothing: float = field(
        default=0.1, metadata={"help": "The epsilon of label smoothing, in [0, 1). With 0 there is no smoothing."}
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("bert_fused_label_smoothed_cross_entropy", dataclass=LabelSmoothedCrossEntropyConfig)
class LabelSmoothedCrossEntropy(FairseqCriterion):
    """L = sum over target tokens of (1 - eps) H(p, q) + eps H(U, q), U uniform over the vocabulary.

    (Szegedy et al., CVPR 2016, section 7.)  fairseq's own criterion takes the target out of U.  Padding
    is excluded.  The criterion logs loss and nll_loss (in bits), ppl, and accuracy (in per cent).
    """

    def __init__(self, task: Any, label_smoothing: float, sentence_avg: bool) -> None:
        super().__init__(task)
        if not 0 <= label_smoothing < 1:
            raise BertFusedError(f"--label-smoothing must be in [0, 1), got {label_smoothing}; 0.1 is usual")
        self.eps = label_smoothing
        self.vocabulary_size = len(task.target_dictionary)
        self.sentence_avg = sentence_avg

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, Any, Dict[str, Any]]:
        """Return the loss, summed over the batch or, if not *reduce*, per token; its divisor; and the values to log."""
        matrix = output_matrix(model) if reduce else None
        if matrix is not None:
            features = model(**sample["net_input"], features_only=True)
            target = model.get_targets(sample, features)
            loss, nll_loss, correct = projected_loss(features[0], matrix, target, self.eps, self.padding_idx)
        else:
            net_output = model(**sample["net_input"])
            target = model.get_targets(sample, net_output)
            if net_output[0].size(-1) != self.vocabulary_size:
                raise BertFusedError(
                    "--criterion bert_fused_label_smoothed_cross_entropy needs a score for each target symbol, which "
                    "--adaptive-softmax-cutoff does not give; leave that flag out, or take --criterion adaptive_loss"
                )
            loss, nll_loss, correct = label_smoothed_loss(net_output[0], target, self.eps, self.padding_idx)
        sample_size = target.size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": loss.detach().sum(),
            "nll_loss": nll_loss.detach().sum(),
            "n_correct": correct.sum(),
            "ntokens": sample["ntokens"],
            "nsentences": target.size(0),
            "sample_size": sample_size,
        }
        return loss.sum() if reduce else loss, sample_size, logging_output

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the sums of what all workers have logged."""
        total = {key: sum(log[key] for log in logging_outputs) for key in _SUMMED}
        metrics.log_scalar(
            "loss",
            total["loss"] / total["sample_size"] / math.log(2),
            total["sample_size"],
            round=3,
        )
        metrics.log_scalar(
            "nll_loss",
            total["nll_loss"] / total["ntokens"] / math.log(2),
            total["ntokens"],
            round=3,
        )
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        metrics.log_scalar("accuracy", 100 * total["n_correct"] / total["ntokens"], total["ntokens"], round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Let fairseq sum the logging outputs over workers first."""
        return True


_SUMMED = ("loss", "nll_loss", "n_correct", "ntokens", "sample_size")
