#!/usr/bin/env bash
# Multi30k English-German (29,000 captions; test 2016): lower-cased, tokenised, joint BPE.
#
#   examples/multi30k/run.sh [STEP]...        --help lists steps and settings
#
# DATA: {train,valid,test}.{en,de}, tokenised by Moses and split by subword-nmt; default: downloaded, 10,000 merges.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

source_lang=en target_lang=de
tiny
updates=${UPDATES:-20000} # captions take longer than Tatoeba: the best validation was that of 11,000
training=(--dropout 0.3 --share-all-embeddings --max-tokens 4096)
default_bert='' # MiniLM, whose fourth layer tells words apart better than its last one, trained for sentences
bert=(--bert-detok moses --bert-layer 4)
scoring=() # of tokenised text, as it is usual for this test set

recipe "$@"
exit # bash reads a script as it goes: it may be edited while this runs
