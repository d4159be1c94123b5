"""The flags of the recurrent models, each with its specification, and the rules for several flags together."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from omegaconf import II

from bert_fused_plugin.bert.flags import BertFlags, map_flag
from bert_fused_plugin.flags import Flag, Record, Rule, at_least, flag, flag_errors, limited, only_for, only_with
from bert_fused_plugin.models.embeddings import sharing_errors
from bert_fused_plugin.models.gru_bahdanau.initialisation import INITIALISATIONS
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS
from bert_fused_plugin.modules.recurrent_attention import RECURRENT_ATTENTIONS

_TO_SOURCE = only_for("attention", RECURRENT_ATTENTIONS, lambda kind: kind.build is not None)
_HAS_ATTENTION = Rule(
    lambda cfg: _TO_SOURCE.holds(cfg) or cfg.bert_model is not None,
    f"{_TO_SOURCE.says}, or for --bert-model",
    "leave it out",
)


def _size(help: str, default: int) -> Any:
    return flag(help, default, rule=at_least(1, "give a positive number"))


@dataclass
class GruConfig(BertFlags):
    """The flags of the recurrent models; sizes are named as in fairseq's lstm, and by default those of the paper."""

    encoder_embed_dim: int = _size("The width of the source embeddings, Bahdanau's m.", 620)
    encoder_embed_path: Optional[str] = flag("A text file of pre-trained source embeddings.", None, values="text file")
    encoder_hidden_size: int = _size("The width of the states of each direction, Bahdanau's n.", 1000)
    encoder_layers: int = _size("The number of bidirectional layers of the encoder.", 1)
    decoder_embed_dim: int = _size("The width of the target embeddings, Bahdanau's m.", 620)
    decoder_embed_path: Optional[str] = flag("A text file of pre-trained target embeddings.", None, values="text file")
    decoder_hidden_size: int = _size("The width of the decoder's states, n, and of the alignment model, n'.", 1000)
    decoder_layers: int = _size("The number of layers of the decoder. The attention belongs to the lowest layer.", 1)
    decoder_out_embed_dim: int = _size("The width of the maxout layer, Bahdanau's l.", 500)
    # a checkpoint has a shared matrix under each of its names
    share_decoder_input_output_embed: bool = flag("Use the target embeddings as output matrix.", False, Record.COMPUTED)
    share_all_embeddings: bool = flag("Use one matrix for all embeddings and as output matrix.", False, Record.COMPUTED)
    attention: ChoiceEnum(tuple(RECURRENT_ATTENTIONS)) = flag(  # type: ignore[valid-type]
        "The attention to the source. "
        + "; ".join(f"{name}: {kind.help}" for name, kind in RECURRENT_ATTENTIONS.items())
        + ".",
        "additive",
        Record.COMPUTED,
    )
    attention_map: ChoiceEnum(tuple(ATTENTION_MAPS)) = map_flag(  # type: ignore[valid-type]
        "the attentions to the source and to BERT",
        where=(_HAS_ATTENTION,),
    )
    dropout: float = flag(
        "The rate of dropout on embeddings, annotations and the maxout layer.",
        0.0,
        Record.NOTED,
        rule=Rule(lambda value: 0 <= value < 1, "must be in [0, 1)", "0 turns it off"),
        values="[0, 1)",
    )
    rnn_init: ChoiceEnum(tuple(INITIALISATIONS)) = flag(  # type: ignore[valid-type]
        "How the parameters are initialised. Recurrent matrices are orthogonal with both values. "
        + "; ".join(f"{name}: {kind.help}" for name, kind in INITIALISATIONS.items())
        + ". The default of the architecture gru_bahdanau is paper.",
        "modern",
    )
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")

    @classmethod
    def flags(cls) -> Dict[str, Flag]:
        """Return the specification of each flag; those about BERT are for models that read BERT."""
        of_bert = BertFlags.flags().keys() - {"bert_model", "bert_unchecked"}
        return limited(super().flags(), only_with("bert_model"), of_bert)


def gru_config_errors(cfg: GruConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    """Return an error message for each setting of *cfg* that breaks a rule."""
    errors = flag_errors(cfg)
    if cfg.share_decoder_input_output_embed and cfg.decoder_out_embed_dim != cfg.decoder_embed_dim:
        sharing = "all-embeddings" if cfg.share_all_embeddings else "decoder-input-output-embed"
        errors.append(
            f"--share-{sharing} needs --decoder-out-embed-dim equal to --decoder-embed-dim, "
            f"got {cfg.decoder_out_embed_dim} and {cfg.decoder_embed_dim}; give both the same value"
        )
    if cfg.share_all_embeddings:
        errors += sharing_errors(cfg, src_dict, tgt_dict)
    return errors
