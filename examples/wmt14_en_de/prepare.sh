#!/usr/bin/env bash
# WMT'14 English-German: Europarl v7, Common Crawl and News Commentary v12; newstest2013 validates, newstest2014 tests.
# Tokenised by Moses' rules, at most 250 words and a ratio of 1.5, joint BPE of 32,000 merges.  Some hours.
#
#   examples/wmt14_en_de/prepare.sh DIR        (called by run.sh; alone it needs the virtual environment on PATH)
set -euo pipefail

dir=${1:?usage: prepare.sh DIR}
export PYTHONUTF8=1
mkdir -p "$dir/raw"
fetch() { # fetch URL
    local file=$dir/raw/${1##*/}
    if [ ! -e "$file" ]; then
        curl -fsSL --retry 3 "$1" -o "$file.part" || {
            echo "prepare.sh: error: $1 cannot be fetched; prepare the data elsewhere and give it: DATA=dir run.sh" >&2
            exit 1
        }
        mv "$file.part" "$file"
    fi
    tar -xzf "$file" -C "$dir/raw"
}
fetch http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz
fetch http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz
fetch http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz

tokenised() { tr '\r' ' ' | sacremoses -j 8 -l "$1" -q tokenize -a; }
for lang in en de; do
    cat "$dir/raw/training/europarl-v7.de-en.$lang" "$dir/raw/commoncrawl.de-en.$lang" \
        "$dir/raw/training/news-commentary-v12.de-en.$lang" | tokenised "$lang" >"$dir/raw/all.$lang"
done
for split in valid:wmt13 test:wmt14/full; do
    sacrebleu -t "${split#*:}" -l en-de --echo src | tokenised en >"$dir/raw/${split%%:*}.en"
    sacrebleu -t "${split#*:}" -l en-de --echo ref | tokenised de >"$dir/raw/${split%%:*}.de"
done
python -m bert_fused_lab.recipe.clean_pairs "$dir/raw/all" "$dir/raw/train" en de 250
cat "$dir"/raw/train.{en,de} | subword-nmt learn-bpe -s 32000 -o "$dir/codes"
for file in {train,valid,test}.{en,de}; do
    subword-nmt apply-bpe -c "$dir/codes" <"$dir/raw/$file" >"$dir/$file"
done
