"""The rules for the flags; a broken rule gives one sentence with the flag, the rule, the value and the remedy."""

from dataclasses import fields
from typing import Any, Callable, List, Sequence, Tuple

from fairseq.data import Dictionary

from bert_fused_plugin.bert.flags import CHECKED_BY_BRIDGE, bert_flag_errors, choice_errors
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.attention_map_flags import map_package_errors
from bert_fused_plugin.models.bert_fused.config import (
    BertFusedConfig,
    bert_gates,
    branch_weights,
    fusion_of,
    kept_layers,
    replaces_embeddings,
)
from bert_fused_plugin.modules.fusion import FUSION_KINDS, FusionKind, IdentityStart

# the switches of fairseq's tasks that these models cannot be trained with
TASK_REASONS = {"load_alignments": "its layers give no attention weights in training, and drop-net leaves some out"}


def config_errors(cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    """Return a sentence for each setting of *cfg* that breaks a rule."""
    errors = []
    if cfg.bert_model is None:
        errors.append(
            "--bert-model is required: give a local model directory or a name on the Hugging Face hub, "
            "such as --bert-model bert-base-uncased"
        )
    return [
        *errors,
        *_size_errors(cfg),
        *choice_errors(cfg, except_for=("bert_fusion", *CHECKED_BY_BRIDGE)),
        *bert_flag_errors(cfg),
        *_fusion_errors(cfg, src_dict, tgt_dict),
        *map_package_errors(cfg, ("attention_map", "self_attention_map")),
        *_unsupported(cfg),
    ]


def output_dim_errors(cfg: BertFusedConfig) -> List[str]:
    """Return a sentence if ``--decoder-output-dim``, which the command line gives as a text, is no whole number."""
    try:
        int(str(cfg.decoder.output_dim))
    except ValueError:
        return [f"--decoder-output-dim must be a whole number, got {cfg.decoder.output_dim!r}; correct it"]
    return []


def _size_errors(cfg: BertFusedConfig) -> List[str]:
    errors = []
    sizes = [
        ("max-source-positions", cfg.max_source_positions, 1),
        ("max-target-positions", cfg.max_target_positions, 1),
        ("decoder-output-dim", cfg.decoder.output_dim, 1),
    ]
    for side, part, fewest in (("encoder", cfg.encoder, 0), ("decoder", cfg.decoder, 1)):
        sizes += [
            (f"{side}-layers", part.layers, fewest),
            (f"{side}-embed-dim", part.embed_dim, 1),
            (f"{side}-ffn-embed-dim", part.ffn_embed_dim, 1),
        ]
        if part.attention_heads < 1 or part.embed_dim % part.attention_heads:
            errors.append(
                f"--{side}-attention-heads must divide --{side}-embed-dim, "
                f"got {part.attention_heads} and {part.embed_dim}; change one of them"
            )
    errors += [
        f"--{flag} must be at least {fewest}, got {size}; choose {fewest} or more"
        for flag, size, fewest in sizes
        if size < fewest
    ]
    rates = ("dropout", "attention_dropout", "activation_dropout", "relu_dropout")
    return errors + [
        f"--{name.replace('_', '-')} must be in [0, 1), got {vars(cfg)[name]}; 0 turns it off"
        for name in rates
        if not 0 <= (vars(cfg)[name] or 0) < 1
    ]


def pruning_errors(cfg: BertFusedConfig) -> List[str]:
    """Return a sentence for each side of which LayerDrop's pruning keeps layers that it does not have."""
    errors = []
    for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        try:
            kept = kept_layers(part) or []
        except ValueError:
            kept = [-1]
        if len(set(kept)) < len(kept) or not set(kept) <= set(range(part.layers)):
            errors.append(
                f"--{side}-layers-to-keep must be different numbers from 0 to {part.layers - 1}, with commas between "
                f"them, got {part.layers_to_keep}; name layers of the training"
            )
    return errors


def _fusion_errors(cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    try:
        fusion_of(cfg)
    except BertFusedError as error:  # the other rules depend on the fusion
        return [*error.errors]
    return [
        *_gate_errors(cfg),
        *_without_effect(cfg),
        *_identity_start_errors(cfg),
        *_shared_embeddings(cfg, src_dict, tgt_dict),
        *_shared_output(cfg),
    ]


def _gate_errors(cfg: BertFusedConfig) -> List[str]:
    try:
        if replaces_embeddings(cfg) or any(gate for gates in bert_gates(cfg) for gate in gates):
            return []
        given = "" if cfg.bert_gates is None else f"--bert-gates {cfg.bert_gates} with "
        return [
            f"{given}--bert-attend {cfg.bert_attend} lets none of the {cfg.encoder.layers} encoder and "
            f"{cfg.decoder.layers} decoder layers attend to BERT; change them, or use --arch transformer"
        ]
    except ValueError:
        pruned = cfg.encoder.layers_to_keep or cfg.decoder.layers_to_keep
        depth = "layers of the training" if pruned else f"{max(cfg.encoder.layers, cfg.decoder.layers)} layers"
        return [
            f"--bert-gates must be a 0 or 1 for each of the {depth}, "
            f"with commas between them, got {cfg.bert_gates!r}; leave it out to let every layer attend to BERT"
        ]


def _without_effect(cfg: BertFusedConfig) -> List[str]:
    """Name the given flags that have no effect with the chosen fusion; to ignore them silently would mislead."""
    flags: Sequence[Tuple[str, Any, Callable[[FusionKind], bool]]] = (
        ("--bert-branch-weights", _given(cfg, "bert_branch_weights"), lambda kind: kind.weighted),
        ("--bert-drop-net", _given(cfg, "bert_drop_net"), lambda kind: kind.has_branches),
        ("--bert-drop-net-per", _given(cfg, "bert_drop_net_per"), lambda kind: kind.has_branches),
        ("--bert-stack-order", _given(cfg, "bert_stack_order"), lambda kind: kind.is_sublayer),
        ("--bert-attend", _given(cfg, "bert_attend"), lambda kind: not kind.replaces_embeddings),
        ("--bert-gates", _given(cfg, "bert_gates"), lambda kind: not kind.replaces_embeddings),
        ("--encoder-embed-path", cfg.encoder.embed_path, lambda kind: not kind.replaces_embeddings),
    )
    chosen = fusion_of(cfg)
    return [
        f"{flag} is for --bert-fusion {_names(has_effect)}, got {value} with --bert-fusion {cfg.bert_fusion}; "
        "leave it out"
        for flag, value, has_effect in flags
        if value is not None and not has_effect(chosen)
    ]


def _given(cfg: BertFusedConfig, name: str) -> Any:
    """Return the value of the setting *name*, or None if it is the default."""
    value, defaults = vars(cfg)[name], {item.name: item.default for item in fields(cfg)}
    return None if str(value) == str(defaults[name]) else value


def _names(has_property: Callable[[FusionKind], bool]) -> str:
    """Return the names of the fusions that have a property: "a", "a and b", "a, b and c"."""
    *others, last = [name for name, kind in FUSION_KINDS.items() if has_property(kind)]
    return f"{', '.join(others)} and {last}" if others else last


def _identity_start_errors(cfg: BertFusedConfig) -> List[str]:
    condition = fusion_of(cfg).identity_start
    if not cfg.bert_identity_start:
        return []
    if condition is IdentityStart.IMPOSSIBLE:
        possible = _names(lambda kind: kind.identity_start is not IdentityStart.IMPOSSIBLE)
        return [
            f"--bert-identity-start is for --bert-fusion {possible}, got {cfg.bert_fusion}, "
            "in which BERT's states always count; leave it out"
        ]
    if condition is IdentityStart.NMT_WEIGHT_ONE:
        try:
            if branch_weights(cfg)[0] == 1:
                return []
        except ValueError:  # another check reports the weights
            return []
        return [
            "--bert-identity-start needs weight 1 for the NMT branch, got --bert-branch-weights "
            f"{cfg.bert_branch_weights}; leave the weights out for 1,1"
        ]
    return [
        f"--bert-identity-start with --bert-fusion {cfg.bert_fusion} needs --{side}-normalize-before: "
        "after the sub-layer, BERT's layer norm would change the states; add that flag, or leave this one out"
        for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder))
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
            f"got {cfg.encoder.embed_dim} and {cfg.decoder.embed_dim}; make them equal, or leave "
            "--share-all-embeddings out"
        )
    if cfg.decoder.embed_path not in (None, cfg.encoder.embed_path):
        errors.append(
            f"--decoder-embed-path is not for --share-all-embeddings (which bert_fused_tiny implies), got "
            f"{cfg.decoder.embed_path}; give the file with --encoder-embed-path"
        )
    return errors


def _shared_output(cfg: BertFusedConfig) -> List[str]:
    """Return a sentence if the target embeddings are the output matrix, and it reads states of another width."""
    is_shared = cfg.share_decoder_input_output_embed or cfg.share_all_embeddings
    if not is_shared or cfg.adaptive_softmax_cutoff or cfg.decoder.output_dim == cfg.decoder.embed_dim:
        return []
    return [
        "--share-decoder-input-output-embed (which --share-all-embeddings and bert_fused_tiny imply) needs "
        f"--decoder-output-dim equal to --decoder-embed-dim, got {cfg.decoder.output_dim} and {cfg.decoder.embed_dim}; "
        "leave --decoder-output-dim out"
    ]


def _unsupported(cfg: BertFusedConfig) -> List[str]:
    """Name the given stock flags that the fused layers do not know; to ignore them silently would mislead.

    Adaptive inputs, and what is tied to them, belong to fairseq's language models: in its transformer for translation
    they have no effect, or the model cannot be built.
    """
    given = {
        "--no-cross-attention": cfg.no_cross_attention,
        "--cross-self-attention": cfg.cross_self_attention,
        "--quant-noise-pq": cfg.quant_noise.pq,
        "--quant-noise-scalar": cfg.quant_noise.scalar,
        "--base-layers": cfg.base_layers,
        "--char-inputs": cfg.char_inputs,
        "--adaptive-input": cfg.adaptive_input,
        "--tie-adaptive-weights": cfg.tie_adaptive_weights,
        "--tie-adaptive-proj": cfg.tie_adaptive_proj,
        "--merge-src-tgt-embed": vars(cfg).get("merge_src_tgt_embed"),  # of fairseq's main; 0.12.2 has no such field
        "--encoder-xformers-att-config": cfg.encoder.xformers_att_config,
        "--decoder-xformers-att-config": cfg.decoder.xformers_att_config,
    }
    return [
        f"{flag} is not supported by the BERT-fused architectures, got {value}; leave it out"
        for flag, value in given.items()
        if value
    ]
