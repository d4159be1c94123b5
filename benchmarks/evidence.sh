#!/usr/bin/env bash
# Does BERT help, and how much by the amount of text?  What docs/results.md says under "How much text" comes from here.
#
#   DATA=dir benchmarks/evidence.sh [PART]...
#
# Each part trains a transformer, its control and a BERT-fused model by examples/own_data/run.sh, in bfloat16 on a CPU, and
# compares them on a test set that nothing was tuned on.  PART is a number of sentence pairs of PARTS below; all by default.
# Trainings that were interrupted go on where they were, and finished ones are skipped, so the command can be run again.
#
# DATA: {train,valid}.{en,de} of Tatoeba English-German, one raw sentence a line.  The first pairs of train are trained on, its
# last 1,000 choose the checkpoints, and valid is what is scored.
# OUT=evidence-out: where everything goes.  SEED=1.  OMP_NUM_THREADS= threads of each training.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${OUT:-$root/evidence-out} data=${DATA:?DATA= must be a directory with train.en, train.de, valid.en and valid.de}
held_out=1000
declare -A parts=( # pairs: updates, further updates, warm-up (that of the recipe where there is none), updates between validations
    [2500]="1000 500 '' 50" [10000]="1000 500 500 50" [40000]="1500 600 800 100" [160000]="4000 1500 800 200"
)

# One number of pairs, from text to report.
part() { # part PAIRS UPDATES MORE WARMUP INTERVAL
    local pairs=$1 updates=$2 more=$3 warmup=$4 interval=$5 here=$out/$1-$seed lang flags
    mkdir -p "$here/raw"
    for lang in en de; do
        [ -e "$here/raw/test.$lang" ] && continue
        head -n "$pairs" "$data/train.$lang" >"$here/raw/train.$lang"
        tail -n "$held_out" "$data/train.$lang" >"$here/raw/valid.$lang"
        cp "$data/valid.$lang" "$here/raw/test.$lang"
    done
    flags="--cpu --bf16 --eval-bleu --eval-bleu-remove-bpe sentencepiece
        --eval-bleu-args {\"beam\":1,\"max_len_a\":1.5,\"max_len_b\":10}
        --validate-interval 100000 --save-interval 100000 --validate-interval-updates $interval
        --save-interval-updates $interval --keep-interval-updates 1"
    export SRC=en TGT=de DATA=$here/raw OUT=$here SEED=$seed UPDATES=$updates MORE=$more WARMUP=$warmup
    TRAIN_FLAGS=$flags "$root/examples/own_data/run.sh" prepare transformer
    TRAIN_FLAGS="$flags --warmup-updates 100" "$root/examples/own_data/run.sh" continued bert_fused
    [ -e "$here/report.json" ] || "$root/examples/own_data/run.sh" compare
}

seed=${SEED:-1}
[ $# -gt 0 ] || set -- 2500 10000 40000 160000
for pairs in "$@"; do
    [ -n "${parts[$pairs]:-}" ] || { echo "evidence.sh: unknown part '$pairs'; parts: ${!parts[*]}" >&2 && exit 2; }
done
for pairs in "$@"; do
    eval "part $pairs ${parts[$pairs]}"
done
exit # bash reads a script as it goes: it may be edited while this runs
