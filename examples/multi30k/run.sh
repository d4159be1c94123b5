#!/usr/bin/env bash
# Multi30k English-German (29,000 captions; test 2016): lower-cased, tokenised, joint BPE.
#
#   examples/multi30k/run.sh [STEP]...        the steps and settings are described in ../recipe.sh
#
# DATA: {train,valid,test}.{en,de}, tokenised by Moses and split by subword-nmt; default: downloaded, 10,000 merges.
# The budget suits two CPU cores; on a GPU: UPDATES=6000 MORE=2000.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

source_lang=en target_lang=de
updates=${UPDATES:-1240} warmup=${WARMUP:-800} lr=${LR:-0.005}
more=${MORE:-620} more_warmup=100 more_lr=0.003 gru_lr=0.003
training=(--dropout 0.3 --share-all-embeddings --max-tokens 4096)
transformer=("${tiny[@]}")
fused_arch=bert_fused_tiny gru_arch=gru_bahdanau_tiny
default_bert='' # MiniLM, whose fourth layer tells words apart better than its last one, trained for sentences
bert=(--bert-detok moses --bert-layer 4)
scoring=() # of tokenised text, as it is usual for this test set

recipe "$@"
exit # bash reads a script as it goes: it may be edited while this runs
