#!/usr/bin/env bash
# Does BERT help, by the amount of text, and of training?  From More text on, docs/results.md comes from here.
#
#   DATA=dir benchmarks/evidence.sh [PART]...
#
# Each part trains a transformer, its control and a BERT-fused model by a recipe, in bfloat16 on a CPU, and compares them on a
# test set that nothing was tuned on.  By default all parts but the last are made, in this order:
#   2500 10000 40000 160000   the first so many sentence pairs, few updates
#   systems                   160000 again, and there the other systems: a mix of BERT's layers, a random BERT, recurrent models
#   long                      160,000 pairs; the transformer has 10,000 updates
#   multi30k                  examples/multi30k with 6,000 + 2,000 updates; each system has the --lenpen that is best on valid
# Trainings that were interrupted go on where they were, and finished ones are skipped, so the command can be run again.
#
# DATA: {train,valid}.{en,de} of Tatoeba English-German, one raw sentence a line.  The first pairs of train are trained on, its
# last 1,000 choose the checkpoints, and valid is what is scored.  For multi30k: as for examples/multi30k/run.sh.
# OUT=evidence-out: where everything goes.  SEED=1.  OMP_NUM_THREADS= threads of each training.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${OUT:-$root/evidence-out} data=${DATA:-} seed=${SEED:-1}
held_out=1000
systems=(transformer continued bert_fused)
declare -A budgets=( # pairs, updates, further updates, warm-up (the recipe's where there is none), updates between validations
    [2500]="2500 1000 500 '' 50" [10000]="10000 1000 500 500 50" [40000]="40000 1500 600 800 100"
    [160000]="160000 4000 1500 800 200" [systems]="160000 4000 1500 800 200" [long]="160000 10000 2500 800 400"
)
declare -A folders=([systems]=160000) # where it is not named after the part

fail() { echo "evidence.sh: $*" >&2 && exit 2; }

flags() { # flags INTERVAL SUBWORDS: of all trainings
    echo "--cpu --bf16 --eval-bleu --eval-bleu-remove-bpe $2
        --eval-bleu-args {\"beam\":1,\"max_len_a\":1.5,\"max_len_b\":10}
        --validate-interval 100000 --save-interval 100000 --validate-interval-updates $1
        --save-interval-updates $1 --keep-interval-updates 1"
}

is_new() { [ ! -e "$1/report.json" ] || [ -n "$(find "$1" -name finished -newer "$1/report.json")" ]; }

# One part of Tatoeba, from text to report.
part() { # part NAME PAIRS UPDATES MORE WARMUP INTERVAL
    local name=$1 pairs=$2 here=$out/${folders[$1]:-$1}-$seed lang flags
    local begun=(transformer) further=(continued bert_fused) # from text, and on from the transformer's parameters
    if [ "$name" = systems ]; then
        begun+=(gru_bahdanau gru_seq2seq gru_bert bert_decoder lstm)
        further+=(bert_mix random_bert)
    fi
    mkdir -p "$here/raw"
    for lang in en de; do
        [ "$(wc -l <"$data/train.$lang")" -ge $((pairs + held_out)) ] ||
            fail "$data/train.$lang has fewer than $((pairs + held_out)) lines, which the part $name needs"
        [ -e "$here/raw/test.$lang" ] && continue
        head -n "$pairs" "$data/train.$lang" >"$here/raw/train.$lang"
        tail -n "$held_out" "$data/train.$lang" >"$here/raw/valid.$lang"
        cp "$data/valid.$lang" "$here/raw/test.$lang.new"
        mv "$here/raw/test.$lang.new" "$here/raw/test.$lang" # whole, or not there: then all three are made again
    done
    flags=$(flags "$6" sentencepiece)
    export SRC=en TGT=de DATA=$here/raw OUT=$here SEED=$seed UPDATES=$3 MORE=$4 WARMUP=$5
    TRAIN_FLAGS=$flags "$root/examples/own_data/run.sh" prepare "${begun[@]}"
    TRAIN_FLAGS="$flags --warmup-updates 100" "$root/examples/own_data/run.sh" "${further[@]}"
    ! is_new "$here" || "$root/examples/own_data/run.sh" compare
}

# translate SYSTEM SUBSET LENPEN: to $here/lenpen/SYSTEM.SUBSET.LENPEN
translate() {
    local to=$here/lenpen/$1.$2.$3 task=translation
    [ ! -s "$to" ] || return 0
    [ "$1" != bert_fused ] || task=bert_fused_translation
    fairseq-generate "$here/data-bin" --user-dir bert_fused_plugin --task "$task" --path "$here/$1/average.pt" --cpu \
        --gen-subset "$2" --beam 5 --lenpen "$3" --max-tokens 4096 --remove-bpe >"$to.out" 2>"$to.log" ||
        { tail -n 5 "$to.log" >&2 && exit 1; }
    grep ^H- "$to.out" | sed 's/^H-//' | sort -n | cut -f 3 >"$to.new"
    mv "$to.new" "$to"
}

# Multi30k: the report, and the scores with the best length penalties in lenpen/scores.txt.
multi30k() {
    local here=$out/multi30k-$seed text subset system penalty score best best_penalty chosen=()
    export OUT=$here UPDATES=6000 MORE=2000
    TRAIN_FLAGS=$(flags 400 '') "$root/examples/multi30k/run.sh" prepare "${systems[@]}"
    if is_new "$here"; then
        rm -rf "$here/lenpen"
        "$root/examples/multi30k/run.sh" compare
    fi
    PATH=$(cd "${VENV:-$root/.venv}/bin" && pwd):$PATH
    export PYTHONUTF8=1
    mkdir -p "$here/lenpen"
    text=$(cat "$here/data-bin/text")
    for subset in valid test; do
        sed 's/@@ //g' "$text/$subset.de" >"$here/lenpen/reference.$subset"
    done
    for system in "${systems[@]}"; do
        best=-1 best_penalty=
        for penalty in 0.5 1 1.5 2 3 4; do
            translate "$system" valid "$penalty"
            score=$(sacrebleu "$here/lenpen/reference.valid" -i "$here/lenpen/$system.valid.$penalty" -tok none --force -b -w 2)
            echo "$system: --lenpen $penalty: $score BLEU on valid"
            ! awk "BEGIN {exit !($score > $best)}" || best=$score best_penalty=$penalty
        done
        translate "$system" test "$best_penalty"
        chosen+=("$here/lenpen/$system.test.$best_penalty")
    done
    sacrebleu "$here/lenpen/reference.test" -i "${chosen[1]}" "${chosen[0]}" "${chosen[2]}" -tok none --force -m bleu chrf ter \
        --paired-bs --format text | tee "$here/lenpen/scores.txt"
}

[ $# -gt 0 ] || set -- 2500 10000 40000 160000 systems long
for name in "$@"; do
    [ "$name" != multi30k ] || continue
    [ -n "${budgets[$name]:-}" ] || fail "unknown part '$name'; parts: 2500 10000 40000 160000 systems long multi30k"
    for file in {train,valid}.{en,de}; do
        [ -s "$data/$file" ] || fail "DATA=$data has no $file; it must hold {train,valid}.{en,de}"
    done
done
for name in "$@"; do
    if [ "$name" = multi30k ]; then multi30k; else eval "part $name ${budgets[$name]}"; fi
done
exit # bash reads a script as it goes: it may be edited while this runs
