"""The rules that the flags must obey: each broken one gives a sentence with flag, rule, value and remedy."""

from typing import Any, List

from fairseq.data import Dictionary

from bert_fused_plugin.bert.flags import check_bert_flags
from bert_fused_plugin.models.bert_fused.config import (
    BertFusedConfig,
    bert_gates,
    branch_weights,
    replaces_embeddings,
)


def check_config(cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    """Return a sentence for each setting of *cfg* that breaks a rule."""
    errors = []
    if cfg.bert_model is None:
        errors.append(
            "--bert-model is required: give a local model directory or a name on the Hugging Face hub, "
            "such as --bert-model bert-base-uncased"
        )
    for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        if part.layers < 0:
            errors.append(f"--{side}-layers must be at least 0, got {part.layers}")
        if part.attention_heads < 1 or part.embed_dim % part.attention_heads:
            errors.append(
                f"--{side}-attention-heads must divide --{side}-embed-dim, "
                f"got {part.attention_heads} and {part.embed_dim}"
            )
    return [
        *errors,
        *check_bert_flags(cfg),
        *_gate_errors(cfg),
        *_without_effect(cfg),
        *_identity_start_errors(cfg),
        *_shared_embeddings(cfg, src_dict, tgt_dict),
        *_unsupported(cfg),
    ]


def _gate_errors(cfg: BertFusedConfig) -> List[str]:
    try:
        if replaces_embeddings(cfg) or any(gate for gates in bert_gates(cfg) for gate in gates):
            return []
        given = "" if cfg.bert_gates is None else f"--bert-gates {cfg.bert_gates} with "
        return [
            f"{given}--bert-attend {cfg.bert_attend} lets none of the {cfg.encoder.layers} encoder and "
            f"{cfg.decoder.layers} decoder layers attend to BERT; open a gate, or use --arch transformer"
        ]
    except ValueError:
        return [
            f"--bert-gates must be a 0 or 1 for each of the {max(cfg.encoder.layers, cfg.decoder.layers)} layers, "
            f"with commas between them, got {cfg.bert_gates!r}"
        ]


def _without_effect(cfg: BertFusedConfig) -> List[str]:
    """Name the flags that the chosen fusion does not know; ignoring them would be silent."""
    two_branches = ("parallel", "gated")
    in_layers = ("parallel", "gated", "stacked")
    given = [
        ("--bert-branch-weights", cfg.bert_branch_weights, ("parallel",)),
        ("--bert-drop-net", cfg.bert_drop_net, two_branches),
        ("--bert-drop-net-per", _if_other(cfg.bert_drop_net_per, "layer"), two_branches),
        ("--bert-stack-order", _if_other(cfg.bert_stack_order, "bert-first"), ("stacked",)),
        ("--bert-attend", _if_other(cfg.bert_attend, "both"), in_layers),
        ("--bert-gates", cfg.bert_gates, in_layers),
        ("--encoder-embed-path", cfg.encoder.embed_path, in_layers),
    ]
    return [
        f"{flag} is for --bert-fusion {' and '.join(kinds)}, got {value} with --bert-fusion {cfg.bert_fusion}; "
        "leave it out"
        for flag, value, kinds in given
        if value is not None and str(cfg.bert_fusion) not in kinds
    ]


def _if_other(value: Any, default: str) -> Any:
    return None if str(value) == default else value


def _identity_start_errors(cfg: BertFusedConfig) -> List[str]:
    if not cfg.bert_identity_start:
        return []
    kind = str(cfg.bert_fusion)
    if kind not in ("parallel", "stacked"):
        return [
            f"--bert-identity-start is for --bert-fusion parallel and stacked, got {kind}, "
            "in which BERT's states always count; leave it out"
        ]
    if kind == "parallel":
        try:
            if branch_weights(cfg)[0] == 1:
                return []
        except ValueError:  # reported already
            return []
        return [
            "--bert-identity-start needs weight 1 for the NMT branch, got --bert-branch-weights "
            f"{cfg.bert_branch_weights}; leave that out for 1,1"
        ]
    sides = (("encoder", cfg.encoder), ("decoder", cfg.decoder))
    return [
        f"--bert-identity-start with --bert-fusion stacked needs --{side}-normalize-before: "
        "after the sub-layer, BERT's layer norm would change the states"
        for side, part in sides
        if str(cfg.bert_attend) in ("both", side) and not part.normalize_before
    ]


def _shared_embeddings(cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    if not cfg.share_all_embeddings or replaces_embeddings(cfg):
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
