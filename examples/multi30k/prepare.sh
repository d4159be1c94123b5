#!/usr/bin/env bash
# Downloads Multi30k task 1 (Elliott et al., 2016) and prepares it: Moses tokenisation, lower case,
# joint subword-nmt BPE of 10,000 merges.
#
#   examples/multi30k/prepare.sh DIR        (called by run.sh; alone it needs the virtual environment on PATH)
set -euo pipefail

dir=${1:?usage: prepare.sh DIR}
url=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw
lower() { python -c 'import sys; sys.stdout.writelines(line.lower() for line in sys.stdin)'; }

mkdir -p "$dir/raw"
export PYTHONUTF8=1
for lang in en de; do
    for pair in train:train valid:val test:test_2016_flickr; do
        file=$dir/raw/${pair%%:*}.$lang
        [ -s "$file" ] && continue
        curl -fsSL --retry 3 "$url/${pair##*:}.$lang.gz" -o "$file.gz" || {
            echo "prepare.sh: error: $url/${pair##*:}.$lang.gz cannot be fetched." \
                "Is there an internet connection? Otherwise give your own copy: DATA=dir run.sh" >&2
            exit 1
        }
        gzip -d "$file.gz"
    done
    for split in train valid test; do
        tr '\r' ' ' <"$dir/raw/$split.$lang" | sacremoses -l "$lang" -q tokenize | lower >"$dir/raw/$split.tok.$lang"
    done
done
cat "$dir"/raw/train.tok.{en,de} | subword-nmt learn-bpe -s 10000 -o "$dir/codes"
for lang in en de; do
    for split in train valid test; do
        subword-nmt apply-bpe -c "$dir/codes" <"$dir/raw/$split.tok.$lang" >"$dir/$split.$lang"
    done
done
