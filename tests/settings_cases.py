"""Flags that checkpoints record: settings of a training, other settings, and how the flag and both values are named."""

from helpers import PRE_NORM

TIED = {"encoder_embed_dim": 7, "decoder_out_embed_dim": 7}  # helpers' decoder_embed_dim


def value(name, then, now, **beside):
    """Return the case of a flag with two values, and settings *beside* it."""
    flag = f"--{name.replace('_', '-')}"
    return {**beside, name: then}, {**beside, name: now}, f"with {flag} {then}", f"with {flag} {now}"


def switch(name, **beside):
    """Return the case of a training with a switch that is off in the model."""
    flag = f"--{name.replace('_', '-')}"
    return {**beside, name: True}, beside, f"with {flag}", f"without {flag}"


def off(case):
    """Return the case with both sides changed."""
    given, trained, now, then = case
    return trained, given, then, now


FUSED = [
    value("bert_fusion", "gated", "parallel"),
    ({"bert_identity_start": True}, {}, "with --bert-branch-weights 1,1", "with --bert-branch-weights 0.5,0.5"),
    value("bert_branch_weights", "0.3,0.7", "0.5,0.5"),
    value("bert_stack_order", "encoder-first", "bert-first", bert_fusion="stacked"),
    value("bert_attend", "encoder", "both"),
    ({"bert_gates": "1, 0"}, {}, "with --bert-gates 1,0", "without --bert-gates"),
    ({}, {"bert_gates": "0,1"}, "without --bert-gates", "with --bert-gates 0,1"),
    value("attention_map", "sparsemax", "softmax"),
    value("self_attention_map", "softmax", "entmax15"),
    value("activation_fn", "gelu", "relu"),
    value("encoder_attention_heads", 4, 2),
    value("decoder_attention_heads", 1, 2),
    switch("encoder_normalize_before"),
    off(switch("decoder_normalize_before")),
    switch("encoder_learned_pos"),
    switch("decoder_learned_pos"),
    switch("no_scale_embedding"),
    switch("no_token_positional_embeddings"),
    switch("no_decoder_final_norm", **PRE_NORM),
    switch("share_all_embeddings"),
    off(switch("share_decoder_input_output_embed")),
]
FUSED_NOTED = [
    value("bert_drop_net", 0.0, 1.0),
    ({"bert_max_tokens": 9}, {}, "with --bert-max-tokens 9", "without --bert-max-tokens"),
]
GRU = [
    value("attention_map", "entmax15", "softmax"),
    value("attention", "dot", "additive"),
    switch("share_decoder_input_output_embed", **TIED),
    switch("share_all_embeddings", **TIED),
]
GRU_WITH_BERT = value("bert_branch_weights", "1,1", "0.5,0.5")
GRU_NOTED = [value("dropout", 0.3, 0.0)]
