#!/usr/bin/env bash
# Multi30k, trained for long: a transformer, its control and a BERT-fused model, each with the best --lenpen of its own.
#
#   [DATA=dir] benchmarks/evidence_multi30k.sh
#
# The trainings are those of examples/multi30k/run.sh, in bfloat16 on a CPU.  The transformer has 6,000 updates, and the other
# two go on from it for 2,000.  The exponent of the length penalty is the one that gives the best BLEU on the validation
# set.  Trainings that were interrupted go on where they were, and translations that are there are kept, so the command can
# be run again.
#
# DATA: as for examples/multi30k/run.sh.  OUT=evidence-out: the results are in OUT/multi30k-SEED.  SEED=1.
# OMP_NUM_THREADS= threads of each training.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=${OUT:-$root/evidence-out}/multi30k-${SEED:-1}
systems=(transformer continued bert_fused)
penalties=(0.5 1 1.5 2 3 4)
interval=400 # updates between validations

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

export OUT=$here UPDATES=6000 MORE=2000
TRAIN_FLAGS="--cpu --bf16 --eval-bleu --eval-bleu-remove-bpe
    --eval-bleu-args {\"beam\":1,\"max_len_a\":1.5,\"max_len_b\":10}
    --validate-interval 100000 --save-interval 100000 --validate-interval-updates $interval
    --save-interval-updates $interval --keep-interval-updates 1" "$root/examples/multi30k/run.sh" prepare "${systems[@]}"
if [ ! -e "$here/report.json" ] || [ -n "$(find "$here" -name finished -newer "$here/report.json")" ]; then
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
chosen=()
for system in "${systems[@]}"; do
    best=-1 best_penalty=
    for penalty in "${penalties[@]}"; do
        translate "$system" valid "$penalty"
        score=$(sacrebleu "$here/lenpen/reference.valid" -i "$here/lenpen/$system.valid.$penalty" -tok none --force -b -w 2)
        echo "$system: --lenpen $penalty: $score BLEU on valid"
        if awk "BEGIN {exit !($score > $best)}"; then
            best=$score best_penalty=$penalty
        fi
    done
    translate "$system" test "$best_penalty"
    chosen+=("$here/lenpen/$system.test.$best_penalty")
done
sacrebleu "$here/lenpen/reference.test" -i "${chosen[1]}" "${chosen[0]}" "${chosen[2]}" -tok none --force -m bleu chrf ter \
    --paired-bs --format text | tee "$here/lenpen/scores.txt"
exit # bash reads a script as it goes: it may be edited while this runs
