#!/usr/bin/env bash
# A causal language model as the encoder of a small translation model: the structure of LaMaTE (Luo et al.,
# "Beyond Decoder-only: Large Language Models Can be Good Encoders for Machine Translation", Findings of ACL 2025).
# The states of all of the model's layers are mixed (learned weights) and projected to the width of a transformer
# encoder, which is bidirectional; a transformer decoder translates from there.  Two stages: first the language model
# is frozen and the rest is trained; then all of it is, the language model slowly.
#
#   examples/lamate/run.sh DATA_BIN MODEL OUT [flags of fairseq-train for both stages]...
#
# DATA_BIN is made by fairseq-preprocess; MODEL is a directory or a hub name (GPT-2, Llama, Qwen, ...).
# What differs from the paper: one weight for each layer instead of groups of layers, one linear projection instead
# of an MLP, and translation data only.
set -euo pipefail

[ $# -ge 3 ] || { echo "run.sh: error: usage: run.sh DATA_BIN MODEL OUT [flags]..." >&2 && exit 2; }
data=$1 model=$2 out=$3
shift 3

train() { # train NAME FLAGS...
    local name=$1
    shift
    fairseq-train "$data" --user-dir bert_fused_plugin --task bert_fused_translation --arch bert_fused \
        --bert-model "$model" --bert-fusion embedding --bert-layer mix \
        --encoder-normalize-before --decoder-normalize-before --layernorm-embedding \
        --criterion bert_fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt --clip-norm 1.0 --max-tokens 4096 \
        --no-epoch-checkpoints --save-dir "$out/$name" --log-format simple "$@"
}

train frozen --bert-cache "$out/cache" --lr 0.0005 --warmup-updates 4000 --max-epoch 20 "$@"
train finetuned --bert-warm-start "$out/frozen/checkpoint_best.pt" --bert-finetune --bert-lr-factor 0.1 \
    --lr 0.0002 --warmup-updates 1000 --max-epoch 3 "$@"
