"""The flags of the recurrent models, and the rules that the flags must obey."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Dict, List, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from omegaconf import II

from bert_fused_plugin.bert.flags import (
    CHECKED_BY_BRIDGE,
    MEAN,
    BertFlags,
    bert_flag_errors,
    choice_errors,
    parse_weights,
)
from bert_fused_plugin.models.attention_map_flags import map_help, map_package_errors
from bert_fused_plugin.models.gru_bahdanau.initialisation import INITIALISATIONS
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS
from bert_fused_plugin.modules.recurrent_attention import RECURRENT_ATTENTIONS, attention_flags, attention_kind


@dataclass
class GruConfig(BertFlags):
    """The flags of the recurrent models.

    The flags of sizes are named as in fairseq's lstm, and their defaults are the sizes of the paper.
    """

    encoder_embed_dim: int = field(default=620, metadata={"help": "The width of the source embeddings, the paper's m."})
    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "The text file of pre-trained source embeddings."}
    )
    encoder_hidden_size: int = field(
        default=1000, metadata={"help": "The width of the states of each direction, the paper's n."}
    )
    encoder_layers: int = field(default=1, metadata={"help": "The number of bidirectional layers of the encoder."})
    decoder_embed_dim: int = field(default=620, metadata={"help": "The width of the target embeddings, the paper's m."})
    decoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "The text file of pre-trained target embeddings."}
    )
    decoder_hidden_size: int = field(
        default=1000, metadata={"help": "The width of the decoder's states, n, and of the alignment model, n'."}
    )
    decoder_layers: int = field(
        default=1, metadata={"help": "The number of layers of the decoder. The attention belongs to the lowest layer."}
    )
    decoder_out_embed_dim: int = field(default=500, metadata={"help": "The width of the maxout layer, the paper's l."})
    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "Use the target embeddings as the output matrix."}
    )
    share_all_embeddings: bool = field(
        default=False, metadata={"help": "Use one matrix for source embeddings, target embeddings and output matrix."}
    )
    attention: ChoiceEnum(tuple(RECURRENT_ATTENTIONS)) = field(  # type: ignore[valid-type]
        default="additive",
        metadata={
            "help": "The attention to the source. "
            + "; ".join(f"{name}: {kind.help}" for name, kind in RECURRENT_ATTENTIONS.items())
            + "."
        },
    )
    attention_map: ChoiceEnum(tuple(ATTENTION_MAPS)) = field(  # type: ignore[valid-type]
        default="softmax", metadata={"help": map_help("the attentions to the source and to BERT")}
    )
    layer_norm: bool = field(
        default=False,
        metadata={"help": "Normalise the annotations, and the state and the embedding in the deep output."},
    )
    dropout: float = field(
        default=0.0, metadata={"help": "The rate of dropout on embeddings, annotations and the maxout layer."}
    )
    rnn_init: ChoiceEnum(tuple(INITIALISATIONS)) = field(  # type: ignore[valid-type]
        default="modern",
        metadata={
            "help": "The first values of the parameters. Recurrent matrices are orthogonal. "
            + "; ".join(f"{name}: {kind.help}" for name, kind in INITIALISATIONS.items())
            + "."
        },
    )
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")


def gru_drop_net_rate(cfg: GruConfig) -> float:
    """Return p_net, which is 1.0, the paper's best, unless a flag sets it."""
    return 1.0 if cfg.bert_drop_net is None else cfg.bert_drop_net


def has_attention(cfg: GruConfig) -> bool:
    """Return whether the decoder attends to the annotations."""
    return attention_kind(str(cfg.attention)).build is not None


def gru_attention_flags(cfg: GruConfig) -> Dict[str, Any]:
    """Return the values of the flags that belong to some kinds of attention only."""
    values = {flag: getattr(cfg, flag) for flag in attention_flags()}
    return {flag: str(value) if isinstance(value, Enum) else value for flag, value in values.items()}


def gru_branch_weights(cfg: GruConfig) -> Tuple[float, float]:
    """Return the weight of the NMT branch, the context of the annotations, and that of BERT's branch, its context.

    Raises:
        ValueError: the flag does not hold two finite numbers.
    """
    return parse_weights(cfg.bert_branch_weights, default=MEAN)


def gru_config_errors(cfg: GruConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    """Return an error message for each setting of *cfg* that breaks a rule."""
    errors = [
        f"{_flag(name)} must be at least 1, got {getattr(cfg, name)}; give a positive number"
        for name in (
            "encoder_embed_dim", "encoder_hidden_size", "encoder_layers", "decoder_embed_dim", "decoder_hidden_size",
            "decoder_layers", "decoder_out_embed_dim",
        )
        if getattr(cfg, name) < 1
    ]  # fmt: skip
    errors += [
        f"{_flag(name)} must be in [0, 1), got {getattr(cfg, name)}; 0 turns it off"
        for name in ("dropout",)
        if not 0 <= getattr(cfg, name) < 1
    ]
    return [
        *errors,
        *choice_errors(cfg, except_for=("attention", *CHECKED_BY_BRIDGE)),
        *_attention_errors(cfg),
        *map_package_errors(cfg, ("attention_map",)),
        *_embedding_errors(cfg, src_dict, tgt_dict),
        *_bert_errors(cfg),
    ]


def gru_task_reasons(cfg: GruConfig) -> Dict[str, str]:
    """Return the switches of fairseq's tasks that a model of *cfg* cannot be trained with, and why."""
    reasons = {"left_pad_target": "the decoder would read the padding before the sentence"}
    if str(cfg.attention) in RECURRENT_ATTENTIONS and not has_attention(cfg):
        reasons["load_alignments"] = f"--attention {cfg.attention} aligns no words"
    elif cfg.bert_model is not None and gru_drop_net_rate(cfg) > 0:
        left_out = f"--bert-drop-net {gru_drop_net_rate(cfg)} leaves the attention to the source out of some steps"
        reasons["load_alignments"] = f"{left_out}, and 0 would not"
    return reasons


def _attention_errors(cfg: GruConfig) -> List[str]:
    name = str(cfg.attention)
    if name not in RECURRENT_ATTENTIONS:
        return [f"--attention must be one of {', '.join(RECURRENT_ATTENTIONS)}, got {name}; choose one of these"]
    errors = []
    defaults = {item.name: item.default for item in fields(GruConfig)}
    for flag, kinds in attention_flags().items():
        if name not in kinds and getattr(cfg, flag) != defaults[flag]:
            rule = f"--attention {' or '.join(kinds)}"
            errors.append(f"{_flag(flag)} works only with {rule}, got --attention {name}; leave it out, or add {rule}")
    return errors


def _bert_errors(cfg: GruConfig) -> List[str]:
    if cfg.bert_model is None:
        return [
            f"{_flag(item.name)} works only with --bert-model, got {getattr(cfg, item.name)} without it; add "
            "--bert-model, or leave it out"
            for item in fields(BertFlags)
            if item.name.startswith("bert_")
            and item.name != "bert_unchecked"
            and getattr(cfg, item.name) != item.default
        ]
    return bert_flag_errors(cfg)


def _embedding_errors(cfg: GruConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    errors = []
    tied = cfg.share_decoder_input_output_embed or cfg.share_all_embeddings
    if tied and cfg.decoder_out_embed_dim != cfg.decoder_embed_dim:
        errors.append(
            "--share-decoder-input-output-embed needs --decoder-out-embed-dim equal to --decoder-embed-dim, "
            f"got {cfg.decoder_out_embed_dim} and {cfg.decoder_embed_dim}; give both the same value"
        )
    if cfg.share_all_embeddings and src_dict != tgt_dict:
        errors.append(
            f"--share-all-embeddings needs one dictionary for both languages, got {len(src_dict)} source and "
            f"{len(tgt_dict)} target symbols that differ; run fairseq-preprocess with --joined-dictionary"
        )
    if cfg.share_all_embeddings and cfg.encoder_embed_dim != cfg.decoder_embed_dim:
        errors.append(
            "--share-all-embeddings needs --encoder-embed-dim equal to --decoder-embed-dim, "
            f"got {cfg.encoder_embed_dim} and {cfg.decoder_embed_dim}; give both the same value"
        )
    if cfg.share_all_embeddings and cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
        errors.append(
            f"--decoder-embed-path is not for --share-all-embeddings (which gru_bahdanau_tiny implies), got "
            f"{cfg.decoder_embed_path}; give the file with --encoder-embed-path"
        )
    return errors


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
