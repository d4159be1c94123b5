"""The flags of the BERT-fused models, and the rules they must obey."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
import math
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig

from bert_fused_plugin.data.dictionary_bridge import DETOK_CHOICES, SUBWORD_CHOICES


@dataclass
class BertFusedConfig(TransformerConfig):
    """All flags of fairseq's transformer, and those of the fusion with BERT."""

    bert_model: Optional[str] = field(
        default=None,
        metadata={
            "help": "pre-trained encoder: a local directory or a name on the Hugging Face hub, "
            "such as bert-base-uncased; required"
        },
    )
    bert_subword: ChoiceEnum(SUBWORD_CHOICES) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={"help": "subword marks of the source dictionary, undone for BERT; auto: seen from the dictionary"},
    )
    bert_detok: ChoiceEnum(DETOK_CHOICES) = field(  # type: ignore[valid-type]
        default="none",
        metadata={"help": "moses: undo Moses tokenisation of the source for BERT"},
    )
    bert_max_tokens: Optional[int] = field(
        default=None,
        metadata={
            "help": "longest BERT input in word pieces, special tokens included; the rest of a longer "
            "sentence is cut off for BERT alone; default and maximum: BERT's positions, usually 512"
        },
    )
    bert_drop_net: float = field(
        default=1.0,
        metadata={"help": "drop-net rate, the paper's p_net, in [0, 1]; the authors' flag is half of it"},
    )
    bert_attend: ChoiceEnum(("both", "encoder", "decoder")) = field(  # type: ignore[valid-type]
        default="both", metadata={"help": "which side's layers attend to BERT"}
    )
    bert_layer: int = field(
        default=-1,
        metadata={
            "help": "which of BERT's layers is attended to: 1 to its number of layers, 0 for its embeddings, "
            "or counted from the end: -1 is the last"
        },
    )
    bert_mask_special_tokens: bool = field(
        default=False, metadata={"help": "do not attend to BERT's special tokens, such as [CLS] and [SEP]"}
    )
    bert_gates: Optional[str] = field(
        default=None,
        metadata={
            "help": "1,0,...: for each layer, counted from the bottom of encoder and decoder alike, whether it "
            "attends to BERT; default: all do"
        },
    )
    bert_branch_weights: str = field(
        default="0.5,0.5",
        metadata={
            "help": "W_OTHER,W_BERT: weights of the NMT branch and BERT's where both are used; "
            "the paper's are 0.5,0.5, the authors' code without drop-net has 1,1"
        },
    )


def check_config(cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    """Return a sentence for each setting of *cfg* that breaks a rule: flag, rule, value, remedy."""
    errors = []
    if cfg.bert_model is None:
        errors.append(
            "--bert-model is required: give a local model directory or a name on the Hugging Face hub, "
            "such as --bert-model bert-base-uncased"
        )
    if not 0 <= cfg.bert_drop_net <= 1:
        errors.append(
            f"--bert-drop-net must be in [0, 1], got {cfg.bert_drop_net}; the paper's best is 1.0, 0 turns it off"
        )
    if cfg.bert_max_tokens is not None and cfg.bert_max_tokens < 3:
        errors.append(
            f"--bert-max-tokens must be at least 3, got {cfg.bert_max_tokens}; leave it out for BERT's own limit"
        )
    for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        if part.attention_heads < 1 or part.embed_dim % part.attention_heads:
            errors.append(
                f"--{side}-attention-heads must divide --{side}-embed-dim, "
                f"got {part.attention_heads} and {part.embed_dim}"
            )
    return errors + _fusion_errors(cfg) + _shared_embeddings(cfg, src_dict, tgt_dict) + _unsupported(cfg)


def branch_weights(cfg: BertFusedConfig) -> Tuple[float, float]:
    """Return the weights (other, BERT) of ``--bert-branch-weights``.

    Raises:
        ValueError: it is not two finite numbers.
    """
    other, bert = (float(weight) for weight in cfg.bert_branch_weights.split(","))
    if not (math.isfinite(other) and math.isfinite(bert)):
        raise ValueError
    return other, bert


def bert_gates(cfg: BertFusedConfig) -> Tuple[List[bool], List[bool]]:
    """Return for each layer of the encoder, and of the decoder, whether it attends to BERT.

    Raises:
        ValueError: ``--bert-gates`` is not one 0 or 1 for each layer.
    """
    depth = max(cfg.encoder.layers, cfg.decoder.layers)
    gates = ["1"] * depth if cfg.bert_gates is None else [gate.strip() for gate in cfg.bert_gates.split(",")]
    if len(gates) != depth or not set(gates) <= {"0", "1"}:
        raise ValueError
    opened = [gate == "1" for gate in gates]
    attend = str(cfg.bert_attend)
    return (
        [gate and attend != "decoder" for gate in opened[: cfg.encoder.layers]],
        [gate and attend != "encoder" for gate in opened[: cfg.decoder.layers]],
    )


def _fusion_errors(cfg: BertFusedConfig) -> List[str]:
    errors = []
    try:
        branch_weights(cfg)
    except ValueError:
        errors.append(
            "--bert-branch-weights must be two numbers with a comma between them, such as 0.5,0.5, "
            f"got {cfg.bert_branch_weights!r}"
        )
    try:
        if not any(gate for gates in bert_gates(cfg) for gate in gates):
            errors.append(
                f"--bert-gates {cfg.bert_gates} with --bert-attend {cfg.bert_attend} lets no layer attend to BERT; "
                "open a gate, or use --arch transformer"
            )
    except ValueError:
        errors.append(
            f"--bert-gates must be a 0 or 1 for each of the {max(cfg.encoder.layers, cfg.decoder.layers)} layers, "
            f"with commas between them, got {cfg.bert_gates!r}"
        )
    return errors


def _shared_embeddings(cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    if not cfg.share_all_embeddings:
        return []
    errors = []
    if src_dict != tgt_dict:
        errors.append(
            f"--share-all-embeddings (which bert_fused_tiny implies) needs one dictionary for both languages, got "
            f"{len(src_dict)} source and {len(tgt_dict)} target symbols that differ; "
            "run fairseq-preprocess with --joined-dictionary"
        )
    if cfg.encoder.embed_dim != cfg.decoder.embed_dim:
        errors.append(
            "--share-all-embeddings needs --encoder-embed-dim equal to --decoder-embed-dim, "
            f"got {cfg.encoder.embed_dim} and {cfg.decoder.embed_dim}"
        )
    return errors


def _unsupported(cfg: BertFusedConfig) -> List[str]:
    """Name the stock flags that the fused layers do not know; ignoring them would be silent."""
    given = {
        "--no-cross-attention": cfg.no_cross_attention,
        "--cross-self-attention": cfg.cross_self_attention,
        "--quant-noise-pq": cfg.quant_noise.pq,
        "--quant-noise-scalar": cfg.quant_noise.scalar,
        "--base-layers": cfg.base_layers,
        "--char-inputs": cfg.char_inputs,
        "--encoder-xformers-att-config": cfg.encoder.xformers_att_config,
        "--decoder-xformers-att-config": cfg.decoder.xformers_att_config,
    }
    return [
        f"{flag} is not supported by the BERT-fused architectures, got {value}; leave it out"
        for flag, value in given.items()
        if value
    ]
