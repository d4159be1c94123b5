"""The rules for several flags together; for each that is broken a sentence names flag, rule, value and remedy."""

from typing import List

from fairseq.data import Dictionary

from bert_fused_plugin.flags import flag_errors
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, kept_layers
from bert_fused_plugin.models.embeddings import sharing_errors
from bert_fused_plugin.modules.fusion import IdentityStart

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
        *flag_errors(cfg, BertFusedConfig),
        *_head_errors(cfg),
        *_gate_errors(cfg),
        *_identity_start_errors(cfg),
        *_embedding_errors(cfg, src_dict, tgt_dict),
    ]


def output_dim_errors(cfg: BertFusedConfig) -> List[str]:
    """Return a sentence if ``--decoder-output-dim``, which the command line gives as a text, is no whole number."""
    try:
        int(str(cfg.decoder.output_dim))
    except ValueError:
        return [f"--decoder-output-dim must be a whole number, got {cfg.decoder.output_dim!r}; correct it"]
    return []


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


def _head_errors(cfg: BertFusedConfig) -> List[str]:
    return [
        f"--{side}-attention-heads must divide --{side}-embed-dim, got {part.attention_heads} and {part.embed_dim}; "
        "change one of them"
        for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder))
        if part.attention_heads < 1 or part.embed_dim % part.attention_heads
    ]


def _gate_errors(cfg: BertFusedConfig) -> List[str]:
    try:
        if cfg.fusion.replaces_embeddings or any(gate for gates in cfg.gates() for gate in gates):
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


def _identity_start_errors(cfg: BertFusedConfig) -> List[str]:
    condition = cfg.fusion.identity_start
    if not cfg.bert_identity_start or condition is IdentityStart.IMPOSSIBLE:
        return []
    if condition is IdentityStart.NMT_WEIGHT_ONE:
        try:
            if cfg.branch_weights()[0] == 1:
                return []
        except ValueError:  # the rule of the weights reports them
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


def _embedding_errors(cfg: BertFusedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> List[str]:
    shared = cfg.share_all_embeddings
    errors = []
    if shared and not cfg.fusion.replaces_embeddings:
        errors = sharing_errors(cfg, src_dict, tgt_dict)
    is_output = cfg.share_decoder_input_output_embed or shared
    if is_output and not cfg.adaptive_softmax_cutoff and cfg.decoder.output_dim != cfg.decoder.embed_dim:
        errors.append(
            "--share-decoder-input-output-embed (which --share-all-embeddings and bert_fused_tiny imply) needs "
            f"--decoder-output-dim equal to --decoder-embed-dim, got {cfg.decoder.output_dim} and "
            f"{cfg.decoder.embed_dim}; leave --decoder-output-dim out"
        )
    return errors
