#!/usr/bin/env bash
# Tatoeba English-Persian: 2,681 short sentences, the case where there is next to no parallel text.
#
#   DATA=dir examples/tatoeba_en_fa/run.sh [STEP]...        --help lists steps and settings
#
# DATA: {train,valid}.{en,fa}, one raw sentence a line, to be had from https://tatoeba.org/downloads or
# https://opus.nlpl.eu/Tatoeba.  valid is what is scored; the last 200 training pairs choose the checkpoints.
#
# Persian is written from right to left, and stored in the order in which it is read: nothing in training or
# translation has a direction.  (A terminal may show it mirrored; bert-fused-compare's page shows it as it should be.)
# What does need care are its many spellings of one word: normalise.py, beside this file, makes letters that only look
# different in Arabic keyboards the same, and keeps the half-space (U+200C) that joins prefixes and endings to words.
# Both sides are normalised, the reference too; and the sentencepiece model leaves the half-space alone.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

source_lang=en target_lang=fa
tiny
training=(--dropout 0.3 --share-all-embeddings --max-tokens 4096)
default_bert='' # MiniLM
bert=(--bert-layer 4)
scoring=(--reference "$out/text/reference.{subset}.fa" --max-len-a 1.5 --max-len-b 10)

make_data() {
    local split
    check_data {train,valid}.{en,fa}
    mkdir -p "$out/normalised"
    for split in train valid; do
        cp "$DATA/$split.en" "$out/normalised/$split.en"
        python "$here/normalise.py" <"$DATA/$split.fa" >"$out/normalised/$split.fa"
    done
    put_aside 200 "$out/normalised"
    prepare_raw "$out/raw" --symbols 2000
}

recipe "$@"
exit # bash reads a script as it goes: it may be edited while this runs
