#!/usr/bin/env bash
# IWSLT'14 German-English (160,000 sentences of TED talks), as BERT-fused NMT was published on (Zhu et al. 2020,
# section 5.1): transformer_iwslt_de_en with shared embeddings, then bert_fused_iwslt_de_en from its parameters,
# drop-net 1.0.
#
#   examples/iwslt14_de_en/run.sh [STEP]...        --help lists steps and settings
#
# DATA: {train,valid,test}.{de,en}, tokenised, lower-cased, split by subword-nmt; default: downloaded by prepare.sh.
# For one GPU (TRAIN_FLAGS=--fp16); not run by the authors of this package.  BLEU is of lower-cased, tokenised text.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

source_lang=de target_lang=en
updates=${UPDATES:-60000} warmup=${WARMUP:-4000} lr=${LR:-0.0005}
more=${MORE:-60000} more_warmup=4000 more_lr=0.0005 every=2000 gru_lr=0.001
training=(--dropout 0.3 --weight-decay 0.0001 --max-tokens 4096 --share-all-embeddings)
transformer=(--arch transformer_iwslt_de_en)
fused_arch=bert_fused_iwslt_de_en gru_arch=gru_bahdanau_iwslt_de_en
default_bert=dbmdz/bert-base-german-uncased
bert=(--bert-detok moses) fused_start=(--bert-drop-net 1.0) # as in the paper
scoring=()

recipe "$@"
exit # bash reads a script as it goes: it may be edited while this runs
