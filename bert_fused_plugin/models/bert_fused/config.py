"""The flags of the BERT-fused models, each with its specification, and the rules for several flags together."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig

from bert_fused_plugin.bert.flags import BertFlags, map_flag, parse_weights
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.flags import NO_EFFECT, Flag, Record, Rule, at_least, flag, flag_errors, limited, only_for
from bert_fused_plugin.models.embeddings import sharing_errors
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS
from bert_fused_plugin.modules.fusion import FUSION_KINDS, FusionKind


def _for_fusions(fits: Callable[[FusionKind], bool]) -> Rule:
    return only_for("bert_fusion", FUSION_KINDS, fits)


_WEIGHTED = _for_fusions(lambda kind: kind.weighted)
_OF_BRANCHES = _for_fusions(lambda kind: kind.has_branches)
_OF_LAYERS = _for_fusions(lambda kind: not kind.replaces_embeddings)


def _split_gates(cfg: Any) -> List[str]:
    return [] if cfg.bert_gates is None else [gate.strip() for gate in cfg.bert_gates.split(",")]


def _recorded_gates(cfg: Any) -> Any:
    gates = _split_gates(cfg)
    return ",".join(gates) if "0" in gates else None  # all open are none


def _of_side(side: str, name: str) -> Flag:
    return Flag(
        Record.COMPUTED, effective=lambda cfg: getattr(cfg, f"{side}_{name}") if vars(cfg)[side].layers else NO_EFFECT
    )


def _fusion_help() -> str:
    return f"How BERT's states join the model. {'; '.join(f'{name}: {k.help}' for name, k in FUSION_KINDS.items())}."


_REQUIRED = Rule(
    lambda value: value is not None,
    "is required",
    "give a local model directory or a name on the Hugging Face hub, such as bert-base-uncased",
)
_SIDES = ("encoder", "decoder")

# fairseq's flags that change what is computed, but not the shape of any parameter
OF_SIDES = ("attention_heads", "normalize_before", "learned_pos")
OF_BOTH = ("activation_fn", "no_scale_embedding", "no_token_positional_embeddings", "no_decoder_final_norm")

# fairseq's own flags that have a rule or are recorded
OF_FAIRSEQ: Dict[str, Flag] = {
    **{f"{side}_{name}": _of_side(side, name) for side in _SIDES for name in OF_SIDES},
    **dict.fromkeys(OF_BOTH, Flag(Record.COMPUTED)),
    # a checkpoint has a shared matrix under each of its names
    "share_decoder_input_output_embed": Flag(Record.COMPUTED),
    "share_all_embeddings": Flag(
        Record.COMPUTED, effective=lambda cfg: NO_EFFECT if cfg.fusion.replaces_embeddings else cfg.share_all_embeddings
    ),
    "encoder_embed_path": Flag(where=(_OF_LAYERS,)),
    "encoder_layers": Flag(rule=at_least(0, "give 0 or a positive number")),
    "decoder_layers": Flag(rule=at_least(1, "give a positive number")),
    # The fused layers do not know these, and what is tied to adaptive inputs has no effect in translation.
    **dict.fromkeys(
        (
            *("no_cross_attention", "cross_self_attention", "quant_noise_pq", "quant_noise_scalar", "base_layers"),
            *("char_inputs", "adaptive_input", "tie_adaptive_weights", "tie_adaptive_proj"),
            *("adaptive_softmax_cutoff", "encoder_layers_to_keep", "decoder_layers_to_keep"),
            *("encoder_xformers_att_config", "decoder_xformers_att_config"),
            "merge_src_tgt_embed",  # of fairseq's main; 0.12.2 has no such field
        ),
        Flag(rule=Rule(lambda value: not value, "is not supported by this architecture", "leave it out")),
    ),
}


@dataclass
class BertFusedConfig(TransformerConfig, BertFlags):
    """All flags of fairseq's transformer, and those of the fusion with BERT."""

    bert_fusion: ChoiceEnum(tuple(FUSION_KINDS)) = flag(  # type: ignore[valid-type]
        _fusion_help(), "parallel", Record.COMPUTED
    )
    bert_stack_order: ChoiceEnum(("bert-first", "encoder-first")) = flag(  # type: ignore[valid-type]
        "The attention that comes first in stacked fusion: that to BERT, or that of the NMT branch. In the "
        "encoder, the latter is self-attention; in the decoder, it is the attention to the encoder.",
        "bert-first",
        Record.COMPUTED,
        where=(_for_fusions(lambda kind: kind.is_sublayer),),
    )
    bert_attend: ChoiceEnum(("both", "encoder", "decoder")) = flag(  # type: ignore[valid-type]
        "The side whose layers attend to BERT.", "both", Record.COMPUTED, where=(_OF_LAYERS,)
    )
    bert_gates: Optional[str] = flag(
        "Whether each layer attends to BERT (1) or not (0), from the bottom layer to the top, as in 1,0,1. Each number "
        "is for the encoder and the decoder alike. By default all layers attend to BERT.",
        None,
        Record.COMPUTED,
        where=(_OF_LAYERS,),
        effective=_recorded_gates,
        values="0 or 1 for each layer",
        unset="all 1",
    )
    bert_identity_start: bool = flag(
        "BERT's branch begins as zero, so the model begins like one without BERT. Stacked fusion must be pre-norm.",
        False,
        where=(_for_fusions(lambda kind: kind.weighted or kind.is_sublayer),),
    )
    attention_map: ChoiceEnum(tuple(ATTENTION_MAPS)) = map_flag(  # type: ignore[valid-type]
        "the attentions to the encoder and to BERT"
    )
    self_attention_map: ChoiceEnum(tuple(ATTENTION_MAPS)) = map_flag(  # type: ignore[valid-type]
        "the self-attention of the encoder and of the decoder"
    )
    bert_warm_start: Optional[str] = flag(
        "The model begins with the parameters of this checkpoint: a fairseq transformer or a model of this package. "
        "Embeddings are remapped where the dictionaries differ.",
        None,
        values="checkpoint",
    )

    @classmethod
    def flags(cls) -> Dict[str, Flag]:
        """Return the specification of each flag, those of fairseq's transformer included."""
        flags = limited(super().flags(), _WEIGHTED, ["bert_branch_weights"])
        flags["bert_model"] = replace(flags["bert_model"], rule=_REQUIRED)
        return {**OF_FAIRSEQ, **limited(flags, _OF_BRANCHES, ["bert_drop_net"])}

    @property
    def fusion(self) -> FusionKind:
        """The description of the chosen fusion.

        Raises:
            BertFusedError: a plug-in that is not imported registers it.
        """
        if str(self.bert_fusion) not in FUSION_KINDS:
            raise BertFusedError(f"--bert-fusion {self.bert_fusion} is unknown; give the --user-dir that registers it")
        return FUSION_KINDS[str(self.bert_fusion)]

    def drop_net_rate(self) -> float:
        """Return p_net: the value of the flag, or the default of the fusion."""
        if self.bert_drop_net is not None:
            return self.bert_drop_net
        return float(self.fusion.weighted and not self.bert_identity_start)

    def branch_weights(self) -> Tuple[float, float]:
        """Return the weights of the NMT branch and of BERT's branch; ValueError as of `parse_weights`.

        Raises:
            ValueError: a value of ``--bert-branch-weights`` that is not two finite numbers.
        """
        if self.bert_identity_start:
            return parse_weights(self.bert_branch_weights, default="1,1")
        return super().branch_weights()

    def gates(self, side: str) -> List[bool]:
        """Return for each layer of a *side*, "encoder" or "decoder", whether it attends to BERT."""
        depth = vars(self)[side].layers
        attends = not self.fusion.replaces_embeddings and str(self.bert_attend) in ("both", side)
        return [attends and gate == "1" for gate in (_split_gates(self) or ["1"] * depth)[:depth]]


def register_fusion(name: str, kind: FusionKind) -> None:
    """Add the fusion *name* to the table and to the flag; a plug-in of one's own calls this when it is imported.

    Raises:
        BertFusedError: there is a fusion of this name.
    """
    if name in FUSION_KINDS:
        raise BertFusedError(f"--bert-fusion {name} is registered already; choose another name")
    FUSION_KINDS[name] = kind
    field = BertFusedConfig.__dataclass_fields__["bert_fusion"]
    field.type = ChoiceEnum(tuple(FUSION_KINDS))
    field.metadata = MappingProxyType({**field.metadata, "help": _fusion_help()})


def config_errors(cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    """Return a sentence for each setting of *cfg* that breaks a rule: flag, rule, value and remedy."""
    fusion = cfg.fusion  # an unknown one ends the checks here, because most of them depend on it
    errors = flag_errors(cfg)
    for side in _SIDES:
        part = vars(cfg)[side]
        if part.layers and (part.attention_heads < 1 or part.embed_dim % part.attention_heads):
            errors.append(
                f"--{side}-attention-heads must divide --{side}-embed-dim, got {part.attention_heads} and "
                f"{part.embed_dim}; change one of them"
            )
    width, output = cfg.decoder.embed_dim, int(cfg.decoder.output_dim)
    if output != width and (cfg.share_all_embeddings or cfg.share_decoder_input_output_embed):
        errors.append(
            "--decoder-output-dim must equal --decoder-embed-dim where the decoder shares its embeddings, got "
            f"{output} and {width}; leave --decoder-output-dim out"
        )
    gates, depth = _split_gates(cfg), max(cfg.encoder.layers, cfg.decoder.layers)
    if gates and (len(gates) != depth or not set(gates) <= {"0", "1"}):
        errors.append(
            f"--bert-gates must be a 0 or 1 for each of the {depth} layers, with commas between them, got "
            f"{cfg.bert_gates!r}; leave it out to let every layer attend to BERT"
        )
    elif not fusion.replaces_embeddings and not any(any(cfg.gates(side)) for side in _SIDES):
        errors.append(
            f"--bert-attend {cfg.bert_attend}, --bert-gates {cfg.bert_gates} and the numbers of layers leave no layer "
            "that attends to BERT; change one of them, or take fairseq's --arch transformer"
        )
    if fusion.has_branches and not fusion.weighted and cfg.bert_drop_net == 1:
        errors.append(
            f"--bert-drop-net must be below 1 with --bert-fusion {cfg.bert_fusion}, got {cfg.bert_drop_net}, because "
            "training would never join the branches; leave it out for 0"
        )
    errors += _identity_start_errors(cfg)
    if cfg.share_all_embeddings and not fusion.replaces_embeddings:
        errors += sharing_errors(cfg, src_dict, tgt_dict)
    return errors


def _identity_start_errors(cfg: BertFusedConfig) -> List[str]:
    if not cfg.bert_identity_start:
        return []
    if cfg.fusion.is_sublayer:
        return [
            f"--bert-identity-start with --bert-fusion {cfg.bert_fusion} needs --{side}-normalize-before: "
            "after the sub-layer, BERT's layer norm would change the states; add that flag, or leave this one out"
            for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder))
            if any(cfg.gates(side)) and not part.normalize_before
        ]
    with suppress(ValueError):  # which the rule of the weights reports
        if cfg.fusion.weighted and cfg.branch_weights()[0] != 1:
            return [
                "--bert-identity-start needs weight 1 for the NMT branch, got --bert-branch-weights "
                f"{cfg.bert_branch_weights}; leave the weights out for 1,1"
            ]
    return []
