"""The flags of the BERT-fused models."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig

from bert_fused_plugin.bert.flags import BertFlags, parse_weights
from bert_fused_plugin.modules.fusion import FusionOptions


@dataclass
class BertFusedConfig(TransformerConfig, BertFlags):
    """All flags of fairseq's transformer, and those of the fusion with BERT."""

    bert_fusion: ChoiceEnum(("parallel", "stacked", "gated", "embedding")) = field(  # type: ignore[valid-type]
        default="parallel",
        metadata={
            "help": "parallel: BERT's branch beside the NMT branch; stacked: a sub-layer of its own; gated: a learned "
            "gate between the branches; embedding: BERT's states in place of the source embeddings"
        },
    )
    bert_stack_order: ChoiceEnum(("bert-first", "encoder-first")) = field(  # type: ignore[valid-type]
        default="bert-first", metadata={"help": "order of the sub-layers in stacked fusion"}
    )
    bert_attend: ChoiceEnum(("both", "encoder", "decoder")) = field(  # type: ignore[valid-type]
        default="both", metadata={"help": "which side's layers attend to BERT"}
    )
    bert_gates: Optional[str] = field(
        default=None,
        metadata={
            "help": "1,0,...: for each layer, counted from the bottom of encoder and decoder alike, whether it "
            "attends to BERT; default: all do"
        },
    )
    bert_drop_net_per: ChoiceEnum(("layer", "sentence")) = field(  # type: ignore[valid-type]
        default="layer", metadata={"help": "drop-net draws for each layer, or for each layer and each sentence"}
    )
    bert_identity_start: bool = field(
        default=False,
        metadata={
            "help": "BERT's branch begins as zero, so that the first step computes what the model without BERT does"
        },
    )
    bert_warm_start: Optional[str] = field(
        default=None,
        metadata={"help": "checkpoint of a stock fairseq transformer whose parameters the model begins with"},
    )


def replaces_embeddings(cfg: BertFusedConfig) -> bool:
    """Say whether BERT's states stand in place of the source embeddings."""
    return str(cfg.bert_fusion) == "embedding"


def drop_net_rate(cfg: BertFusedConfig) -> float:
    """Return p_net: what the flag says, or the default of the fusion."""
    if cfg.bert_drop_net is not None:
        return cfg.bert_drop_net
    return 1.0 if str(cfg.bert_fusion) in ("parallel", "gated") and not cfg.bert_identity_start else 0.0


def branch_weights(cfg: BertFusedConfig) -> Tuple[float, float]:
    """Return the weights (other, BERT) of ``--bert-branch-weights``.

    Raises:
        ValueError: it is not two finite numbers.
    """
    if cfg.bert_branch_weights is None:
        return (1.0, 1.0) if cfg.bert_identity_start else (0.5, 0.5)
    return parse_weights(cfg.bert_branch_weights)


def bert_gates(cfg: BertFusedConfig) -> Tuple[List[bool], List[bool]]:
    """Return for each layer of the encoder, and of the decoder, whether it attends to BERT.

    Raises:
        ValueError: ``--bert-gates`` is not one 0 or 1 for each layer.
    """
    depth = max(cfg.encoder.layers, cfg.decoder.layers)
    gates = ["1"] * depth if cfg.bert_gates is None else [gate.strip() for gate in cfg.bert_gates.split(",")]
    if len(gates) != depth or not set(gates) <= {"0", "1"}:
        raise ValueError
    opened = [gate == "1" and not replaces_embeddings(cfg) for gate in gates]
    attend = str(cfg.bert_attend)
    return (
        [gate and attend != "decoder" for gate in opened[: cfg.encoder.layers]],
        [gate and attend != "encoder" for gate in opened[: cfg.decoder.layers]],
    )


def fusion_options(cfg: BertFusedConfig) -> FusionOptions:
    """Return what the layers must know of the fusion."""
    return FusionOptions(
        kind=str(cfg.bert_fusion),
        p_net=drop_net_rate(cfg),
        per_sentence=str(cfg.bert_drop_net_per) == "sentence",
        weights=branch_weights(cfg),
        bert_first=str(cfg.bert_stack_order) == "bert-first",
        identity_start=cfg.bert_identity_start,
    )
