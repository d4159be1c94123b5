"""The flags of the BERT-fused models."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import EncDecBaseConfig

from bert_fused_plugin.bert.flags import MEAN, BertFlags, parse_weights
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.attention_map_flags import map_help
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS
from bert_fused_plugin.modules.fusion import FUSION_KINDS, FusionKind, FusionOptions, fusion_kind


@dataclass
class BertFusedConfig(TransformerConfig, BertFlags):
    """All flags of fairseq's transformer, and those of the fusion with BERT."""

    bert_fusion: ChoiceEnum(tuple(FUSION_KINDS)) = field(  # type: ignore[valid-type]
        default="parallel",
        metadata={
            "help": "How BERT's states join the model. "
            + "; ".join(f"{name}: {kind.help}" for name, kind in FUSION_KINDS.items())
            + "."
        },
    )
    bert_stack_order: ChoiceEnum(("bert-first", "encoder-first")) = field(  # type: ignore[valid-type]
        default="bert-first",
        metadata={
            "help": "The attention that comes first in stacked fusion: that to BERT, or that of the NMT branch, which "
            "is self-attention in the encoder and the attention to the encoder in the decoder."
        },
    )
    bert_attend: ChoiceEnum(("both", "encoder", "decoder")) = field(  # type: ignore[valid-type]
        default="both", metadata={"help": "The side whose layers attend to BERT."}
    )
    bert_gates: Optional[str] = field(
        default=None,
        metadata={
            "help": "1,0,...: Whether a layer attends to BERT (1) or not (0), from the bottom layer to the top. Each "
            "number is for the encoder and the decoder alike. By default all layers attend to BERT."
        },
    )
    bert_drop_net_per: ChoiceEnum(("layer", "sentence")) = field(  # type: ignore[valid-type]
        default="layer",
        metadata={"help": "Drop-net draws once in each layer, or once in each layer for each sentence of the batch."},
    )
    bert_identity_start: bool = field(
        default=False,
        metadata={
            "help": "BERT's branch begins as zero, so that the first step computes what the model without BERT "
            "computes."
        },
    )
    attention_map: ChoiceEnum(tuple(ATTENTION_MAPS)) = field(  # type: ignore[valid-type]
        default="softmax", metadata={"help": map_help("the attentions to the encoder and to BERT")}
    )
    self_attention_map: ChoiceEnum(tuple(ATTENTION_MAPS)) = field(  # type: ignore[valid-type]
        default="softmax", metadata={"help": map_help("the self-attention of the encoder and of the decoder")}
    )
    bert_warm_start: Optional[str] = field(
        default=None,
        metadata={"help": "The checkpoint of a stock fairseq transformer whose parameters the model begins with."},
    )


def fusion_of(cfg: BertFusedConfig) -> FusionKind:
    """Return the description of the chosen fusion.

    Raises:
        BertFusedError: an unknown fusion, which a YAML file or ``--model-overrides`` can give.
    """
    try:
        return fusion_kind(str(cfg.bert_fusion))
    except ValueError as error:
        raise BertFusedError(
            f"--bert-fusion must be one of {', '.join(FUSION_KINDS)}, got {cfg.bert_fusion!r}; choose one of them"
        ) from error


def replaces_embeddings(cfg: BertFusedConfig) -> bool:
    """Return whether BERT's states take the place of the source embeddings."""
    return fusion_of(cfg).replaces_embeddings


def drop_net_rate(cfg: BertFusedConfig) -> float:
    """Return p_net: the value of the flag, or the default of the fusion."""
    if cfg.bert_drop_net is not None:
        return cfg.bert_drop_net
    return 0.0 if cfg.bert_identity_start else fusion_of(cfg).default_p_net


def branch_weights(cfg: BertFusedConfig) -> Tuple[float, float]:
    """Return the weights of the NMT branch and of BERT's branch.

    Raises:
        ValueError: a value of ``--bert-branch-weights`` that is not two finite numbers.
    """
    return parse_weights(cfg.bert_branch_weights, default=(1.0, 1.0) if cfg.bert_identity_start else MEAN)


def kept_layers(side: EncDecBaseConfig) -> Optional[List[int]]:
    """Return the numbers of the layers that LayerDrop's pruning keeps of one *side*; None if it keeps all.

    ``--model-overrides`` gives a text such as "0,2", and the command line gives a list.

    Raises:
        ValueError: the value of the flag is no list of numbers.
    """
    keep = side.layers_to_keep
    return sorted(int(number) for number in (keep.split(",") if isinstance(keep, str) else keep)) if keep else None


def bert_gates(cfg: BertFusedConfig) -> Tuple[List[bool], List[bool]]:
    """Return for each layer of the encoder, and for each layer of the decoder, whether it attends to BERT.

    The gates are those of the layers of the training; of a pruned side, the layers that are kept have theirs.

    Raises:
        ValueError: a value of ``--bert-gates`` that is not one 0 or 1 for each layer.
    """
    kept = [kept_layers(side) for side in (cfg.encoder, cfg.decoder)]
    encoder, decoder = (
        list(range(side.layers)) if keep is None else keep for side, keep in zip((cfg.encoder, cfg.decoder), kept)
    )
    depth = max((number + 1 for number in (*encoder, *decoder)), default=0)
    gates = ["1"] * depth if cfg.bert_gates is None else [gate.strip() for gate in cfg.bert_gates.split(",")]
    if len(gates) < depth or (len(gates) > depth and kept == [None, None]) or not set(gates) <= {"0", "1"}:
        raise ValueError
    opened = [gate == "1" and not replaces_embeddings(cfg) for gate in gates]
    attend = str(cfg.bert_attend)
    return (
        [opened[number] and attend != "decoder" for number in encoder],
        [opened[number] and attend != "encoder" for number in decoder],
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
