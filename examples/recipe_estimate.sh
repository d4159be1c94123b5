# shellcheck shell=bash disable=SC2154,SC2034,SC2086  # what recipe.sh and run.sh set
# The step estimate of the recipes.

# How long the trainings will take: some updates and translations of both models are timed on a part of the text.
estimate() {
    local probe=$out/probe text lang kind began ratio encoder batches=1
    local ours=(${bert_text:+--bert-text "$probe/bert"})
    [ ! -e "$out/transformer/begun" ] || { say "estimate: skipped, because the training has begun" && return; }
    say "estimate: timing some updates and translations"
    need "$out/data-bin/text" prepare
    encoder=$(bert_model)
    text=$(text_dir)
    rm -rf "$probe" && mkdir -p "$probe/bert"
    if [ ${#bert_text[@]} != 0 ]; then
        sample 2000 "$text/bert/train.$source_lang" "$probe/bert/train.$source_lang"
        cp "$text/bert/valid.$source_lang" "$probe/bert"
        sample 100 "$text/bert/test.$source_lang" "$probe/bert/test.$source_lang"
    fi
    for lang in "$source_lang" "$target_lang"; do
        sample 2000 "$text/train.$lang" "$probe/train.$lang"
        cp "$out/valid.$lang" "$probe/valid.$lang"
        sample 100 "$text/test.$lang" "$probe/test.$lang"
    done
    binarise_alike "$probe/train" "$probe/valid" "$probe/test" "$probe/data-bin"
    [[ ! " ${TRAIN_FLAGS:-} " =~ .*\ --update-freq[\ =]([0-9]+) ]] || batches=${BASH_REMATCH[1]} # of an update; the probe has one
    # a model that has hardly learned translates on to the greatest length: that of the references
    ratio=$(awk -v from="$(wc -w <"$probe/test.$source_lang")" -v to="$(wc -w <"$probe/test.$target_lang")" 'BEGIN {print to / from}')
    for kind in plain fused; do
        local model=("${transformer[@]}") task=()
        if [ $kind = fused ]; then
            task=(--task bert_fused_translation "${ours[@]}")
            model=(--arch "$fused_arch" "${fused_start[@]}" --bert-model "$encoder" "${bert[@]}" ${cache:+--bert-cache "$probe/cache"})
        fi
        began=$SECONDS
        probe "$kind" fairseq-train "$probe/data-bin" --user-dir bert_fused_plugin "${task[@]}" "${model[@]}" "${training[@]}" \
            --criterion bert_fused_label_smoothed_cross_entropy "${validation[@]}" \
            --eval-bleu-args "{\"beam\": 1, \"max_len_a\": $ratio, \"max_len_b\": 1}" --optimizer adam --lr 0.0001 \
            --lr-scheduler inverse_sqrt --warmup-updates 25 ${CONSISTENCY:+--consistency "$CONSISTENCY"} ${TRAIN_FLAGS:-} \
            --update-freq 1 --max-update 25 --no-epoch-checkpoints --save-dir "$probe/$kind" --log-format json --log-interval 5
        echo $((SECONDS - began)) >"$probe/$kind.seconds"
        probe "$kind-test" fairseq-generate "$probe/data-bin" --user-dir bert_fused_plugin "${task[@]}" \
            --path "$probe/$kind/checkpoint_last.pt" --max-len-a "$ratio" --max-len-b 1 \
            --skip-invalid-size-inputs-valid-test
    done
    python "$examples/estimate.py" "$probe" "$text" "$target_lang" $((batches * updates)) $((batches * more)) $((batches * every)) "${#seeds[@]}"
    rm -rf "$probe"
}

probe() { # probe NAME COMMAND...: its output goes to $out/probe/NAME.log
    "${@:2}" >"$out/probe/$1.log" 2>&1 || {
        tail -n 5 "$out/probe/$1.log" >&2
        fail "the first updates failed; all that was said is in $out/probe/$1.log"
    }
}
