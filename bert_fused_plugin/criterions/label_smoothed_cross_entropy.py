"""Cross entropy with label smoothing over the whole vocabulary."""

import inspect
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.distributed import DistributedTimeoutWrapper, LegacyDistributedDataParallel, ModuleProxyWrapper
from fairseq.logging import metrics
from fairseq.models import FairseqDecoder, FairseqEncoderDecoderModel
from fairseq.models.transformer import TransformerDecoderBase
from omegaconf import II
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bert_fused_plugin.criterions.consistency import CONSISTENCY_KINDS, read_twice
from bert_fused_plugin.criterions.smoothed_loss import Agreement, label_smoothed_loss, projected_loss
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.fairseq_settings import task_settings
from bert_fused_plugin.flags import Rule, Specified, at_least, flag, flag_errors, only_for
from bert_fused_plugin.models.gru_bahdanau.decoder import GruDecoder
from bert_fused_plugin.modules.device_choices import is_plain_linear
from bert_fused_plugin.modules.drop_net import batch_rng

_WRAPPERS = (DistributedTimeoutWrapper, ModuleProxyWrapper, LegacyDistributedDataParallel, DistributedDataParallel)
# the decoders' methods that only apply `output_projection`
_KNOWN = (TransformerDecoderBase.output_layer, GruDecoder.output_layer)


@dataclass
class LabelSmoothedCrossEntropyConfig(FairseqDataclass, Specified):
    """The flags, of which ``--label-smoothing`` has the name that fairseq's own criterion gives it."""

    label_smoothing: float = flag(
        "The epsilon of label smoothing. With 0 there is no smoothing.",
        0.1,
        rule=Rule(lambda value: 0 <= value < 1, "must be in [0, 1)", "0.1 is usual"),
        values="[0, 1)",
    )
    consistency: ChoiceEnum(tuple(CONSISTENCY_KINDS)) = flag(  # type: ignore[valid-type]
        "Read each batch twice in training, and make both readings agree. "
        + "; ".join(f"{name}: {kind.help}" for name, kind in CONSISTENCY_KINDS.items() if kind is not None)
        + ".",
        "none",
    )
    consistency_alpha: Optional[float] = flag(
        "The weight alpha of the divergence between the two readings. With 0 each batch is read once.",
        None,
        rule=at_least(0),
        where=(only_for("consistency", CONSISTENCY_KINDS, lambda kind: kind is not None),),
        values="0 or more",
        unset=", ".join(f"{kind.alpha:g} for {name}" for name, kind in CONSISTENCY_KINDS.items() if kind is not None),
    )
    cutoff: float = flag(
        "The share p_cut of the tokens whose embeddings are cut from the second reading.",
        0.05,
        rule=Rule(lambda value: 0 <= value < 1, "must be in [0, 1)", "0.05 is usual"),
        where=(only_for("consistency", CONSISTENCY_KINDS, lambda kind: kind is not None and kind.cuts),),
        values="[0, 1)",
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("bert_fused_label_smoothed_cross_entropy", dataclass=LabelSmoothedCrossEntropyConfig)
class LabelSmoothedCrossEntropy(FairseqCriterion):
    """L = sum over target tokens of (1 - eps) H(p, q) + eps H(U, q), U uniform over the vocabulary.

    (Szegedy et al., CVPR 2016, section 7.)  fairseq's own criterion takes the target out of U.  Padding
    is excluded.  The criterion logs loss and nll_loss (in bits), ppl, and accuracy (in per cent).

    With ``--consistency`` a model in training reads each batch twice.  Then the loss is that of both readings, the
    other figures are those of the first, and the criterion also logs their divergence (in bits).
    """

    agreement: Optional[Agreement] = None  # the loss of two readings
    p_cut: Optional[float] = None  # the share of the tokens that the second reading lacks

    def __init__(self, task: Any, label_smoothing: float, sentence_avg: bool) -> None:
        super().__init__(task)
        self.eps = label_smoothing
        self.sentence_avg = sentence_avg

    @classmethod
    def build_criterion(cls, cfg: LabelSmoothedCrossEntropyConfig, task: Any) -> "LabelSmoothedCrossEntropy":
        """Build the criterion from its flags, which keep their rules; fairseq's hook.

        Raises:
            BertFusedError: flags that break their rules, or that have no effect.
        """
        errors = flag_errors(cfg)
        if task_settings(task).get("load_alignments"):
            other = "--criterion label_smoothed_cross_entropy_with_alignment"
            errors.append(f"--load-alignments: this criterion does not learn from them; give {other}, or leave it out")
        raise_all(errors)
        criterion: LabelSmoothedCrossEntropy = super().build_criterion(cfg, task)
        kind = CONSISTENCY_KINDS[str(cfg.consistency)]
        if kind is not None and cfg.consistency_alpha != 0:
            criterion.agreement = kind.agreement(kind.alpha if cfg.consistency_alpha is None else cfg.consistency_alpha)
            criterion.p_cut = cfg.cutoff if kind.cuts else None
        return criterion

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, Any, Dict[str, Any]]:
        """Return the loss, summed over the batch or, if not *reduce*, per token; its divisor; and the values to log.

        Raises:
            BertFusedError: the probabilities of the model are not the softmax of the scores of all symbols.
        """
        _require_softmax(model)
        matrix = output_matrix(model) if reduce else None
        options = {} if matrix is None else {"features_only": True}
        agreement = self.agreement if self.training else None
        if agreement is None:
            net_output = model(**sample["net_input"], **options)
            states = net_output[0]  # scores or features, (B, T, ...)
        else:
            with batch_rng(training=True):
                net_output, other = read_twice(model, sample["net_input"], self.p_cut, **options)
            states = torch.stack((net_output[0], other[0]), dim=-2)  # of both readings, (B, T, 2, ...)
        target = model.get_targets(sample, net_output)
        loss_of: Any = label_smoothed_loss if matrix is None else partial(projected_loss, matrix=matrix)
        values = loss_of(states, target=target, eps=self.eps, padding_idx=self.padding_idx, agreement=agreement)
        totals = [value.sum() for value in values]  # of sums, too: fairseq changes the loss of a dummy batch in place
        sample_size = target.size(0) if self.sentence_avg else sample["ntokens"]
        logged = zip(("loss", "nll_loss", "n_correct", "divergence"), (total.detach() for total in totals))
        sizes = {"ntokens": sample["ntokens"], "nsentences": target.size(0), "sample_size": sample_size}
        return totals[0] if reduce else values[0], sample_size, {**dict(logged), **sizes}

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the sums of what all workers have logged."""
        total = {key: sum(log[key] for log in logging_outputs) for key in logging_outputs[0]}
        for name, divisor in (("loss", "sample_size"), ("nll_loss", "ntokens"), ("divergence", "ntokens")):
            if name in total:
                metrics.log_scalar(name, total[name] / total[divisor] / math.log(2), total[divisor], round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        metrics.log_scalar("accuracy", 100 * total["n_correct"] / total["ntokens"], total["ntokens"], round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Let fairseq sum the logging outputs over workers first."""
        return True


def _require_softmax(model: Any) -> None:
    decoder: Any = model.decoder if hasattr(model, "decoder") else None
    if hasattr(decoder, "adaptive_softmax") and decoder.adaptive_softmax is not None:
        raise BertFusedError(
            "--criterion bert_fused_label_smoothed_cross_entropy needs the scores of all symbols, which a model with "
            "--adaptive-softmax-cutoff does not compute; use --criterion adaptive_loss, and --ddp-backend legacy_ddp"
        )
    usual = FairseqDecoder.get_normalized_probs
    if isinstance(decoder, FairseqDecoder) and type(decoder).get_normalized_probs is not usual:
        raise BertFusedError(
            "--criterion bert_fused_label_smoothed_cross_entropy takes the softmax of the model's scores, but "
            f"{type(decoder).__name__}.get_normalized_probs does not; use --criterion label_smoothed_cross_entropy"
        )


def output_matrix(model: Any) -> Optional[Tensor]:
    """Return the matrix, (V, C), that makes scores of what *model* returns with ``features_only``.

    Returns None for a model that computes its scores in another way, and where all scores have to be there: in half
    precision, whose range is too small for gradients before fairseq scales the loss, and under wrappers that look for
    parameters without a gradient or that spread parameters over processes.
    """
    while isinstance(model, _WRAPPERS):
        if isinstance(model, DistributedDataParallel) and model.find_unused_parameters:
            return None
        model = model.module
    if not isinstance(model, FairseqEncoderDecoderModel):
        return None
    decoder = model.decoder
    if not isinstance(decoder, (TransformerDecoderBase, GruDecoder)) or type(decoder).output_layer not in _KNOWN:
        return None
    projection = decoder.output_projection
    if not is_plain_linear(projection) or projection.bias is not None:
        return None
    is_whole = projection.weight.dtype == torch.half or any(map(torch.is_autocast_enabled, ("cuda", "cpu")))
    return None if is_whole or "features_only" not in inspect.signature(model.forward).parameters else projection.weight
