#!/usr/bin/env bash
# Tatoeba English-German: 163,000 short sentences of everyday language, raw text, joint sentencepiece model.
#
#   DATA=dir examples/tatoeba_en_de/run.sh [STEP]...        --help lists steps and settings
#
# DATA: {train,valid}.{en,de}, one raw sentence a line, to be had from https://tatoeba.org/downloads or
# https://opus.nlpl.eu/Tatoeba.  valid is what is scored; the last 500 training pairs choose the checkpoints.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

source_lang=en target_lang=de
tiny
training=(--dropout 0.1 --share-all-embeddings --max-tokens 4096)
default_bert='' # MiniLM
bert=(--bert-layer 4)
scoring=(--reference "$out/text/reference.{subset}.de" --max-len-a 1.5 --max-len-b 10)

make_data() {
    check_data {train,valid}.{en,de}
    put_aside 500 "$DATA"
    prepare_raw "$out/raw" --symbols 8000
}

recipe "$@"
exit # bash reads a script as it goes: it may be edited while this runs
