"""Settings that checkpoints record, with other values that are refused or noted, and flags that need no record."""

# Each case is the settings of a training, other settings, and how the flag and both values are named.
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}

FUSED = [
    ({"bert_fusion": "gated"}, {}, "with --bert-fusion gated", "with --bert-fusion parallel"),
    ({"bert_identity_start": True}, {}, "with --bert-branch-weights 1,1", "with --bert-branch-weights 0.5,0.5"),
    (
        {"bert_branch_weights": "0.3,0.7"},
        {},
        "with --bert-branch-weights 0.3,0.7",
        "with --bert-branch-weights 0.5,0.5",
    ),
    (
        {"bert_fusion": "stacked", "bert_stack_order": "encoder-first"},
        {"bert_fusion": "stacked"},
        "with --bert-stack-order encoder-first",
        "with --bert-stack-order bert-first",
    ),
    ({"bert_attend": "encoder"}, {}, "with --bert-attend encoder", "with --bert-attend both"),
    ({"bert_gates": "1, 0"}, {}, "with --bert-gates 1,0", "without --bert-gates"),
    ({}, {"bert_gates": "0,1"}, "without --bert-gates", "with --bert-gates 0,1"),
    ({"attention_map": "sparsemax"}, {}, "with --attention-map sparsemax", "with --attention-map softmax"),
    ({}, {"self_attention_map": "entmax15"}, "with --self-attention-map softmax", "with --self-attention-map entmax15"),
    ({"activation_fn": "gelu"}, {}, "with --activation-fn gelu", "with --activation-fn relu"),
    ({"encoder_attention_heads": 4}, {}, "with --encoder-attention-heads 4", "with --encoder-attention-heads 2"),
    ({"decoder_attention_heads": 1}, {}, "with --decoder-attention-heads 1", "with --decoder-attention-heads 2"),
    (
        {"encoder_normalize_before": True},
        {},
        "with --encoder-normalize-before",
        "without --encoder-normalize-before",
    ),
    (
        {},
        {"decoder_normalize_before": True},
        "without --decoder-normalize-before",
        "with --decoder-normalize-before",
    ),
    ({"encoder_learned_pos": True}, {}, "with --encoder-learned-pos", "without --encoder-learned-pos"),
    ({"decoder_learned_pos": True}, {}, "with --decoder-learned-pos", "without --decoder-learned-pos"),
    ({"no_scale_embedding": True}, {}, "with --no-scale-embedding", "without --no-scale-embedding"),
    (
        {"no_token_positional_embeddings": True},
        {},
        "with --no-token-positional-embeddings",
        "without --no-token-positional-embeddings",
    ),
    (
        {"no_decoder_final_norm": True, **PRE_NORM},
        PRE_NORM,
        "with --no-decoder-final-norm",
        "without --no-decoder-final-norm",
    ),
    ({"share_all_embeddings": True}, {}, "with --share-all-embeddings", "without --share-all-embeddings"),
    (
        {},
        {"share_decoder_input_output_embed": True},
        "without --share-decoder-input-output-embed",
        "with --share-decoder-input-output-embed",
    ),
]
TIED = {"encoder_embed_dim": 7, "decoder_out_embed_dim": 7}  # helpers' decoder_embed_dim
GRU = [
    ({"attention_map": "entmax15"}, {}, "with --attention-map entmax15", "with --attention-map softmax"),
    ({"attention": "dot"}, {}, "with --attention dot", "with --attention additive"),
    ({}, {"layer_norm": True}, "without --layer-norm", "with --layer-norm"),
    (
        {**TIED, "share_decoder_input_output_embed": True},
        TIED,
        "with --share-decoder-input-output-embed",
        "without --share-decoder-input-output-embed",
    ),
    ({**TIED, "share_all_embeddings": True}, TIED, "with --share-all-embeddings", "without --share-all-embeddings"),
]
GRU_WITH_BERT = (
    {"bert_branch_weights": "1,1"},
    {},
    "with --bert-branch-weights 1,1",
    "with --bert-branch-weights 0.5,0.5",
)

FUSED_NOTED = [
    ({"bert_drop_net": 0.0}, {}, "with --bert-drop-net 0.0", "with --bert-drop-net 1.0"),
    ({}, {"bert_drop_net_per": "sentence"}, "with --bert-drop-net-per layer", "with --bert-drop-net-per sentence"),
    ({"bert_max_tokens": 9}, {}, "with --bert-max-tokens 9", "without --bert-max-tokens"),
]
GRU_NOTED = [
    ({"dropout": 0.3}, {}, "with --dropout 0.3", "with --dropout 0.0"),
]

# the flags that no case has, and why
IN_THE_RECORD_OF_BERT = {
    *("bert_model", "bert_layer", "bert_subword", "bert_detok", "bert_context", "bert_mask_special_tokens"),
    "bert_strip_tags",
}
SEEN_IN_PARAMETERS = {
    *("encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_hidden_size", "encoder_layers", "layernorm_embedding"),
    *("decoder_embed_dim", "decoder_ffn_embed_dim", "decoder_hidden_size", "decoder_layers", "decoder_input_dim"),
    *("decoder_output_dim", "decoder_out_embed_dim", "adaptive_softmax_cutoff", "adaptive_softmax_factor"),
    "bert_finetune",
}
OF_THE_START = {
    *("bert_warm_start", "bert_identity_start", "rnn_init", "encoder_embed_path", "decoder_embed_path"),
}
OF_TRAINING = {  # and of memory
    *("dropout", "attention_dropout", "activation_dropout", "relu_dropout", "adaptive_softmax_dropout"),
    *("encoder_layerdrop", "decoder_layerdrop", "checkpoint_activations", "offload_activations", "export"),
    *("min_params_to_wrap", "bert_unchecked"),
}
LIMITS_AND_PRUNING = {  # which a trained model may change
    *("max_source_positions", "max_target_positions", "encoder_layers_to_keep", "decoder_layers_to_keep"),
}
NOT_SUPPORTED = {
    *("no_cross_attention", "cross_self_attention", "quant_noise_pq", "quant_noise_pq_block_size"),
    *("quant_noise_scalar", "base_layers", "base_sublayers", "base_shuffle", "char_inputs"),
    *("encoder_xformers_att_config", "decoder_xformers_att_config"),
    "merge_src_tgt_embed",  # of fairseq's main
    *("adaptive_input", "tie_adaptive_weights", "tie_adaptive_proj"),  # fairseq has them for language models only
}
REASONS = IN_THE_RECORD_OF_BERT | SEEN_IN_PARAMETERS | OF_THE_START | OF_TRAINING | LIMITS_AND_PRUNING | NOT_SUPPORTED
