#!/usr/bin/env bash
# IWSLT'14 German-English as fairseq's example has it: tokenised, lower-cased, at most 175 words, joint BPE of 10,000
# merges; every 23rd training pair validates; test is dev2010, dev2012 (TEDX), tst2010, tst2011 and tst2012.
#
#   examples/iwslt14_de_en/prepare.sh DIR        (called by run.sh; alone it needs the virtual environment on PATH)
set -euo pipefail

dir=${1:?usage: prepare.sh DIR}
url=http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz
raw=$dir/raw/de-en
export PYTHONUTF8=1
mkdir -p "$dir/raw"
if [ ! -d "$raw" ]; then
    curl -fsSL --retry 3 "$url" -o "$dir/raw/de-en.tgz" || {
        echo "prepare.sh: error: $url cannot be fetched; prepare the data elsewhere and give it: DATA=dir run.sh" >&2
        exit 1
    }
    mkdir -p "$dir/raw/new"
    tar -xzf "$dir/raw/de-en.tgz" -C "$dir/raw/new"
    mv "$dir/raw/new/de-en" "$raw"
fi

lower() { python -c 'import sys; sys.stdout.writelines(line.lower() for line in sys.stdin)'; }
tokenised() { tr '\r' ' ' | sacremoses -j 4 -l "$1" -q tokenize | lower; }
for lang in de en; do
    grep -v -E '<(url|talkid|keywords|speaker|reviewer|translator)' "$raw/train.tags.de-en.$lang" |
        sed -E 's#</?(title|description)>##g' | tokenised "$lang" >"$dir/raw/all.$lang"
    for set in IWSLT14.TED.dev2010 IWSLT14.TEDX.dev2012 IWSLT14.TED.tst2010 IWSLT14.TED.tst2011 IWSLT14.TED.tst2012; do
        sed -n -E -e "s/’/'/g" -e 's#^<seg id="[0-9]+"> *(.*[^ ]) *</seg>.*#\1#p' "$raw/$set.de-en.$lang.xml"
    done | tokenised "$lang" >"$dir/raw/test.$lang"
done
python -m bert_fused_lab.recipe.clean_pairs "$dir/raw/all" "$dir/raw/clean" de en 175
for lang in de en; do
    awk 'NR % 23 != 0' "$dir/raw/clean.$lang" >"$dir/raw/train.$lang"
    awk 'NR % 23 == 0' "$dir/raw/clean.$lang" >"$dir/raw/valid.$lang"
done
cat "$dir"/raw/train.{de,en} | subword-nmt learn-bpe -s 10000 -o "$dir/codes"
for file in {train,valid,test}.{de,en}; do
    subword-nmt apply-bpe -c "$dir/codes" <"$dir/raw/$file" >"$dir/$file"
done
