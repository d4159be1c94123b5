#!/usr/bin/env bash
# Does BERT help, by the amount of text, and of training?  The top of docs/results.md comes from here.
#
#   DATA=dir benchmarks/evidence.sh [PART]...
#
# Each part trains a transformer, its control and a BERT-fused model by examples/own_data/run.sh, in bfloat16 on a CPU, and
# compares them on a test set that nothing was tuned on.  By default all parts are made, in this order:
#   2500 10000 40000 160000   the first so many sentence pairs, few updates
#   systems                   160000 again, and there the other systems: a mix of BERT's layers, a random BERT, recurrent models
#   long                      160,000 pairs; the transformer has 10,000 updates
# Trainings that were interrupted go on where they were, and finished ones are skipped, so the command can be run again.
#
# DATA: {train,valid}.{en,de} of Tatoeba English-German, one raw sentence a line.  The first pairs of train are trained on, its
# last 1,000 choose the checkpoints, and valid is what is scored.
# OUT=evidence-out: where everything goes.  SEED=1.  OMP_NUM_THREADS= threads of each training.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${OUT:-$root/evidence-out} data=${DATA:?DATA= must be a directory with train.en, train.de, valid.en and valid.de}
held_out=1000
all_parts=(2500 10000 40000 160000 systems long)
declare -A budgets=( # pairs, updates, further updates, warm-up (the recipe's where there is none), updates between validations
    [2500]="2500 1000 500 '' 50" [10000]="10000 1000 500 500 50" [40000]="40000 1500 600 800 100"
    [160000]="160000 4000 1500 800 200" [systems]="160000 4000 1500 800 200" [long]="160000 10000 2500 800 400"
)
declare -A folders=([systems]=160000) # where it is not named after the part

# One part, from text to report.
part() { # part NAME PAIRS UPDATES MORE WARMUP INTERVAL
    local name=$1 pairs=$2 updates=$3 more=$4 warmup=$5 interval=$6 here=$out/${folders[$1]:-$1}-$seed lang flags
    local begun=(transformer) further=(continued bert_fused) # from text, and on from the transformer's parameters
    if [ "$name" = systems ]; then
        begun+=(gru_bahdanau gru_seq2seq gru_bert bert_decoder lstm)
        further+=(bert_mix random_bert)
    fi
    mkdir -p "$here/raw"
    for lang in en de; do
        if [ "$(wc -l <"$data/train.$lang")" -lt $((pairs + held_out)) ]; then
            echo "evidence.sh: $data/train.$lang has fewer than $((pairs + held_out)) lines, which the part $name needs" >&2
            exit 2
        fi
        [ -e "$here/raw/test.$lang" ] && continue
        head -n "$pairs" "$data/train.$lang" >"$here/raw/train.$lang"
        tail -n "$held_out" "$data/train.$lang" >"$here/raw/valid.$lang"
        cp "$data/valid.$lang" "$here/raw/test.$lang.new"
        mv "$here/raw/test.$lang.new" "$here/raw/test.$lang" # whole, or not there: then all three are made again
    done
    flags="--cpu --bf16 --eval-bleu --eval-bleu-remove-bpe sentencepiece
        --eval-bleu-args {\"beam\":1,\"max_len_a\":1.5,\"max_len_b\":10}
        --validate-interval 100000 --save-interval 100000 --validate-interval-updates $interval
        --save-interval-updates $interval --keep-interval-updates 1"
    export SRC=en TGT=de DATA=$here/raw OUT=$here SEED=$seed UPDATES=$updates MORE=$more WARMUP=$warmup
    TRAIN_FLAGS=$flags "$root/examples/own_data/run.sh" prepare "${begun[@]}"
    TRAIN_FLAGS="$flags --warmup-updates 100" "$root/examples/own_data/run.sh" "${further[@]}"
    if [ ! -e "$here/report.json" ] || [ -n "$(find "$here" -name finished -newer "$here/report.json")" ]; then
        "$root/examples/own_data/run.sh" compare
    fi
}

seed=${SEED:-1}
[ $# -gt 0 ] || set -- "${all_parts[@]}"
for name in "$@"; do
    [ -n "${budgets[$name]:-}" ] || { echo "evidence.sh: unknown part '$name'; parts: ${all_parts[*]}" >&2 && exit 2; }
done
for file in {train,valid}.{en,de}; do
    [ -s "$data/$file" ] || { echo "evidence.sh: DATA=$data has no $file; it must hold {train,valid}.{en,de}" >&2 && exit 2; }
done
for name in "$@"; do
    eval "part $name ${budgets[$name]}"
done
exit # bash reads a script as it goes: it may be edited while this runs
