"""Cross entropy with label smoothing over the whole vocabulary."""

import inspect
import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from fairseq.logging import metrics
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.transformer import TransformerDecoderBase
from omegaconf import II
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss, projected_loss
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder
from bert_fused_plugin.modules.weight_layout import is_plain_linear

# the decoders' methods that only apply `output_projection`
_KNOWN = (TransformerDecoderBase.output_layer, GruDecoder.output_layer)


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

    (Szegedy et al., CVPR 2016, section 7.)  fairseq's own criterion takes the target out of U.  Padding is excluded.
    The criterion logs loss and nll_loss (in bits), ppl, and accuracy (in per cent).
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
        summed = ("loss", "nll_loss", "n_correct", "ntokens", "sample_size")
        total = {key: sum(log[key] for log in logging_outputs) for key in summed}
        for name, divisor in (("loss", "sample_size"), ("nll_loss", "ntokens")):
            metrics.log_scalar(name, total[name] / total[divisor] / math.log(2), total[divisor], round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        metrics.log_scalar("accuracy", 100 * total["n_correct"] / total["ntokens"], total["ntokens"], round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Let fairseq sum the logging outputs over workers first."""
        return True


def output_matrix(model: nn.Module) -> Optional[Tensor]:
    """Return the matrix, (V, C), that makes scores of what *model* returns with ``features_only``.

    Returns None for a model that computes its scores in another way, and where all scores have to be there: in half
    precision, whose range is too small for gradients before fairseq scales the loss, and under wrappers that look for
    parameters without a gradient or that spread parameters over processes.
    """
    while isinstance(model, (ModuleProxyWrapper, LegacyDistributedDataParallel, DistributedDataParallel)):
        if isinstance(model, DistributedDataParallel) and model.find_unused_parameters:
            return None
        model = model.module
    if not isinstance(model, FairseqEncoderDecoderModel):
        return None
    decoder = model.decoder
    if not isinstance(decoder, (TransformerDecoderBase, GruDecoder)) or type(decoder).output_layer not in _KNOWN:
        return None
    projection = decoder.output_projection  # None with an adaptive softmax
    if projection is None or not is_plain_linear(projection) or projection.bias is not None:
        return None
    is_whole = projection.weight.dtype == torch.half or torch.is_autocast_enabled()
    return None if is_whole or "features_only" not in inspect.signature(model.forward).parameters else projection.weight
