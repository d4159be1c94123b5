# shellcheck shell=bash disable=SC2154,SC2034,SC2086,SC2206  # what recipe.sh and run.sh set
# The steps of the recipes that lead to a model for CTranslate2: distill, student, student_control, deploy.

teacher=${TEACHER:-bert_fused} sizes=${STUDENT:-transformer}
distilled=$out/distilled-${teacher// /+}

# The step: the teacher, or the ensemble of several, translates the training text.
distill() {
    local system flag text paths=() search made_from
    need "$out/data-bin/text" prepare
    text=$(text_dir)
    for system in $teacher; do
        average "$out/$system"
        paths+=("$out/$system/average.pt")
        made_from+=$(trained "$system")$'\n'
    done
    search_flags
    made_from+=${search[*]}
    stamp "$distilled/made-from" "$made_from" \
        "$distilled was begun by another teacher, or with another search; remove it to translate the text anew"
    if [ -e "$distilled/data-bin" ]; then
        say "distill: done before"
        return
    fi
    for flag in --fp16 --bf16; do
        [[ " ${TRAIN_FLAGS:-} " != *" $flag "* ]] || search+=("$flag")
    done
    python "$examples/distill.py" "$text" "$distilled" "$source_lang" "$target_lang" "$out/data-bin" \
        --user-dir bert_fused_plugin --task bert_fused_translation --path "$(IFS=: && echo "${paths[*]}")" "${search[@]}" \
        "${bert_text[@]}" --max-tokens 4096 --skip-invalid-size-inputs-valid-test
    binarise_alike "$distilled/train" "$out/valid" "$text/test" "$distilled/data-bin.new"
    mv "$distilled/data-bin.new" "$distilled/data-bin"
}

search_flags() { # sets search to the flags of the search in scoring
    local i
    search=(--beam 5)
    for ((i = 0; i < ${#scoring[@]}; i++)); do
        case ${scoring[i]} in --beam | --lenpen | --max-len-a | --max-len-b) search+=("${scoring[@]:i:2}") ;; esac
    done
}

student() ( # data_bin is for this step alone
    need "$distilled/data-bin" distill
    data_bin=$distilled/data-bin
    stamp "$out/student/taught-by" "$(cat "$distilled"/train.* 2>/dev/null | cksum)" \
        "$out/student learned from other translations; remove it to train it again"
    learn student
)
student_control() { learn student_control; }
learn() { # learn NAME
    if [ "$sizes" = transformer ]; then
        from_transformer "$1"
        train "$1" "$more" "$more_lr" "$more_warmup" "${transformer[@]}" \
            --finetune-from-model "$out/transformer/checkpoint_best.pt"
    else # layer norms before the sub-layers: with those behind them, six layers learn slowly at these rates
        train "$1" $((updates + more)) "$lr" "$warmup" "${transformer[@]}" \
            --encoder-layers "${sizes%+*}" --decoder-layers "${sizes#*+}" --encoder-normalize-before --decoder-normalize-before
    fi
}

# The step: a plain transformer as a directory for CTranslate2.
deploy() {
    local system=${DEPLOY:-student} text search
    average "$out/$system"
    text=$(text_dir)
    python -c 'import ctranslate2' 2>/dev/null || python -m pip install -q ctranslate2 ||
        fail "ctranslate2 cannot be installed; there are wheels of it for Linux, macOS and Windows, and not for each Python"
    search_flags
    [[ " ${bert[*]} ${scoring[*]} " != *"detok moses "* ]] || search+=(--moses)
    python "$examples/deploy/convert.py" "$out/$system/average.pt" "$out/data-bin" "$text" "$out/deploy" \
        "$source_lang" "$target_lang" "${search[@]}"
    trained "$system" >"$out/deploy.made-from"
}
trained() { echo "$1" && cksum <"$out/$1/checkpoint_best.pt"; } # trained SYSTEM: which model it is

# For the step compare: what is deployed translates the test sets, and joins the report.
served() { # served: adds to given
    local system precision file flags=()
    [ -e "$out/deploy" ] || return 0
    system=$(head -n 1 "$out/deploy.made-from" 2>/dev/null || true)
    if [ -z "$system" ] || [ "$(trained "$system" 2>/dev/null)" != "$(cat "$out/deploy.made-from")" ]; then
        say "compare: $out/deploy is of an earlier training, and not in the report; run the step deploy"
        return
    fi
    [[ " ${scoring[*]} " == *" --detok moses "* ]] || flags+=(--tokenised)
    for file in "$(text_dir)"/test{,-*}."$source_lang"; do
        [ ! -e "$file" ] || python "$examples/deploy/measure.py" "$out/deploy" "$file" "${flags[@]}"
    done | tee "$out/deploy.log"
    for precision in float32 int8; do
        given+=(--hypotheses "ctranslate2_$precision=$out/deploy.{subset}.$precision")
    done
}
