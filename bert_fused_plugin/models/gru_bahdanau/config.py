"""The flags of the recurrent models, and the rules they must obey."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
from dataclasses import dataclass, field, fields
from typing import List, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from omegaconf import II

from bert_fused_plugin.bert.flags import BertFlags, check_bert_flags, parse_weights


@dataclass
class GruConfig(BertFlags):
    """Sizes, named as in fairseq's lstm, and what the recurrent models differ in; the defaults are the paper's."""

    encoder_embed_dim: int = field(default=620, metadata={"help": "width of the source embeddings, the paper's m"})
    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "pre-trained source embeddings, a text file"}
    )
    encoder_hidden_size: int = field(default=1000, metadata={"help": "width of each direction, the paper's n"})
    encoder_layers: int = field(default=1, metadata={"help": "bidirectional layers of the encoder"})
    decoder_embed_dim: int = field(default=620, metadata={"help": "width of the target embeddings, the paper's m"})
    decoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "pre-trained target embeddings, a text file"}
    )
    decoder_hidden_size: int = field(
        default=1000, metadata={"help": "width of the decoder's states, n, and of the alignment model, n'"}
    )
    decoder_layers: int = field(
        default=1, metadata={"help": "layers of the decoder; the attention belongs to the lowest"}
    )
    decoder_out_embed_dim: int = field(default=500, metadata={"help": "width of the maxout layer, the paper's l"})
    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "use the target embeddings as output matrix"}
    )
    share_all_embeddings: bool = field(
        default=False, metadata={"help": "use one matrix for source embeddings, target embeddings and output"}
    )
    attention: ChoiceEnum(("additive", "dot", "none")) = field(  # type: ignore[valid-type]
        default="additive",
        metadata={"help": "alignment model; none: the encoder's summary feeds each step"},
    )
    attention_scaled: bool = field(
        default=False, metadata={"help": "divide dot products by the square root of their width"}
    )
    attention_query: ChoiceEnum(("previous", "new")) = field(  # type: ignore[valid-type]
        default="previous",
        metadata={"help": "the decoder state that asks: the one before the step (the paper), or the step's own"},
    )
    input_feeding: bool = field(
        default=False,
        metadata={"help": "with --attention-query new: the last context enters the gates of the next step"},
    )
    coverage: bool = field(
        default=False, metadata={"help": "the additive alignment model knows how much attention a position got so far"}
    )
    layer_norm: bool = field(
        default=False, metadata={"help": "normalise the annotations, and state and embedding in the deep output"}
    )
    dropout: float = field(default=0.0, metadata={"help": "on embeddings, annotations and the maxout layer"})
    word_dropout: float = field(default=0.0, metadata={"help": "rate of words whose embedding is set to zero"})
    variational_dropout: bool = field(
        default=False, metadata={"help": "--dropout takes the same units at all positions of a sentence"}
    )
    rnn_init: ChoiceEnum(("paper", "modern")) = field(  # type: ignore[valid-type]
        default="modern",
        metadata={"help": "paper: orthogonal recurrent matrices, small normal others; modern: Xavier for the others"},
    )
    bert_attend: ChoiceEnum(("decoder",)) = field(  # type: ignore[valid-type]
        default="decoder", metadata={"help": "with --bert-model the decoder attends to BERT's states"}
    )
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")


def gru_drop_net_rate(cfg: GruConfig) -> float:
    """Return p_net; the paper's best, 1.0, by default."""
    return 1.0 if cfg.bert_drop_net is None else cfg.bert_drop_net


def gru_branch_weights(cfg: GruConfig) -> Tuple[float, float]:
    """Return the weights of (the annotations' context, BERT's).

    Raises:
        ValueError: they are not two finite numbers.
    """
    return (0.5, 0.5) if cfg.bert_branch_weights is None else parse_weights(cfg.bert_branch_weights)


def check_gru_config(cfg: GruConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    """Return a sentence for each setting of *cfg* that breaks a rule: flag, rule, value, remedy."""
    errors = [
        f"{_flag(name)} must be at least 1, got {getattr(cfg, name)}"
        for name in (
            "encoder_embed_dim", "encoder_hidden_size", "encoder_layers", "decoder_embed_dim", "decoder_hidden_size",
            "decoder_layers", "decoder_out_embed_dim",
        )
        if getattr(cfg, name) < 1
    ]  # fmt: skip
    errors += [
        f"{_flag(name)} must be in [0, 1), got {getattr(cfg, name)}; 0 turns it off"
        for name in ("dropout", "word_dropout")
        if not 0 <= getattr(cfg, name) < 1
    ]
    kind, query = str(cfg.attention), str(cfg.attention_query)
    needs = [
        ("--attention-scaled", cfg.attention_scaled, kind == "dot", "--attention dot"),
        ("--coverage", cfg.coverage, kind == "additive", "--attention additive"),
        ("--attention-query new", query == "new", kind != "none", "a model with attention"),
        (
            "--input-feeding",
            cfg.input_feeding,
            query == "new" and kind != "none",
            "--attention-query new, with attention",
        ),
    ]
    errors += [f"{flag} is for {rule}; leave it out" for flag, given, fits, rule in needs if given and not fits]
    return errors + _embedding_errors(cfg, src_dict, tgt_dict) + _bert_errors(cfg)


def _bert_errors(cfg: GruConfig) -> List[str]:
    if cfg.bert_model is None:
        return [
            f"{_flag(item.name)} is for models with --bert-model, got {getattr(cfg, item.name)} without it; add "
            "--bert-model, or leave it out"
            for item in fields(BertFlags)
            if item.name.startswith("bert_") and getattr(cfg, item.name) != item.default
        ]
    return check_bert_flags(cfg)


def _embedding_errors(cfg: GruConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    errors = []
    tied = cfg.share_decoder_input_output_embed or cfg.share_all_embeddings
    if tied and cfg.decoder_out_embed_dim != cfg.decoder_embed_dim:
        errors.append(
            "--share-decoder-input-output-embed needs --decoder-out-embed-dim equal to --decoder-embed-dim, "
            f"got {cfg.decoder_out_embed_dim} and {cfg.decoder_embed_dim}"
        )
    if cfg.share_all_embeddings and src_dict != tgt_dict:
        errors.append(
            f"--share-all-embeddings needs one dictionary for both languages, got {len(src_dict)} source and "
            f"{len(tgt_dict)} target symbols that differ; run fairseq-preprocess with --joined-dictionary"
        )
    if cfg.share_all_embeddings and cfg.encoder_embed_dim != cfg.decoder_embed_dim:
        errors.append(
            "--share-all-embeddings needs --encoder-embed-dim equal to --decoder-embed-dim, "
            f"got {cfg.encoder_embed_dim} and {cfg.decoder_embed_dim}"
        )
    return errors


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
