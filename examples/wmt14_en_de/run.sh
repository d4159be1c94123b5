#!/usr/bin/env bash
# WMT'14 English-German (4.5 million pairs), the large setting of Zhu et al. 2020, section 5.2:
# transformer_vaswani_wmt_en_de_big, then bert_fused_wmt_en_de_big from its parameters, BERT-large, drop-net 1.0; batches of
# 400,000 tokens (Ott et al. 2018).  BERT's states take some 275 GB in OUT; CACHE_GB=0 computes them in each step instead.
#
#   examples/wmt14_en_de/run.sh [STEP]...        --help lists steps and settings
#
# DATA: {train,valid,test}.{en,de}, tokenised, split by subword-nmt; default: downloaded by prepare.sh.
# TRAIN_FLAGS is for one machine of 8 GPUs; fairseq-train takes all GPUs that it sees.  With other numbers change
# --update-freq, to 128 in all.  Not run by the authors of this package.
# BLEU is of tokenised text, as in the papers, which normalised its punctuation first; --detok moses --reference FILE in scoring
# gives sacreBLEU's own.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

TRAIN_FLAGS=${TRAIN_FLAGS:---fp16 --update-freq 16}
source_lang=en target_lang=de
updates=${UPDATES:-30000} warmup=${WARMUP:-4000} lr=${LR:-0.001}
more=${MORE:-15000} more_warmup=1000 more_lr=0.0005 every=500 gru_lr=0.0005
training=(--dropout 0.3 --max-tokens 3584 --share-all-embeddings)
transformer=(--arch transformer_vaswani_wmt_en_de_big) # without dropout on attention, as BERT-fused's
fused_arch=bert_fused_wmt_en_de_big gru_arch=gru_bahdanau gru_sizes=(--decoder-out-embed-dim 620) # as wide as the embeddings
default_bert=bert-large-cased
bert=(--bert-detok moses) fused_start=(--bert-drop-net 1.0) # as in the paper
scoring=(--lenpen 0.6 --beam 4)

recipe "$@"
exit # bash reads a script as it goes: it may be edited while this runs
