# shellcheck shell=bash disable=SC2154,SC2034,SC2086  # what recipe.sh and run.sh set
# The part of the recipes that makes data-bin of text.

# The step: make_data says how it is done, and run.sh in text_options what the user has chosen for it.
prepare() {
    local made_from
    made_from=$(text_options && contents "${DATA:-}" "$source_lang" "$target_lang" && contents "${BERT_TEXT:-}" "$source_lang")
    if [ -e "$out/data-bin/made-from" ] && [ "$(cat "$out/data-bin/made-from")" = "$made_from" ]; then
        say "prepare: done before"
        return
    fi
    if [ -e "$out" ] && [ -n "$(find "$out/" -mindepth 1 -name probe -prune -o -name 'checkpoint_*.pt' -print)" ]; then
        check_text_options
        fail "$out holds models of other text (changed: $(comm -3 <(sort "$out/data-bin/made-from" 2>/dev/null) <(sort <<<"$made_from") |
            awk '{print $3}' | sort -u | paste -sd ' ')); give this data another directory: OUT=dir"
    fi
    [[ ! ${DATA:-} -ef $out && ! ${BERT_TEXT:-} -ef $out ]] || fail "the text lies in OUT=$out, where it would be overwritten; give another OUT=dir"
    [[ ! -e $out/data-bin || -e $out/data-bin/text ]] || fail "$out/data-bin is not of a recipe; give another OUT=dir"
    rm -rf "$out/data-bin" # what follows may be interrupted
    make_data
    echo "$made_from" >"$out/data-bin/made-from"
}

text_options() { echo "$source_lang-$target_lang ${text_options[*]}${BERT_TEXT:+ --bert-text}"; }

# A later call of other steps must not forget a setting of prepare: the text that BERT reads, and scores, would differ.
check_text_options() {
    local before
    [ -e "$out/data-bin/made-from" ] || return 0 # made by hand
    before=$(head -n 1 "$out/data-bin/made-from")
    [ "$before" = "$(text_options)" ] || fail "$out/data-bin was made with other settings (before: $before; now: $(text_options));" \
        "give them again, or another OUT=dir; to add seeds, keep the first one at its place: SEEDS='1 2'"
}

contents() { # contents DIR LANGUAGE...: checksums of its text, wherever DIR is
    local lang
    for lang in "${@:2}"; do
        [ -z "$1" ] || (cd "$1" && cksum {train,valid,test,test-*}."$lang") 2>/dev/null || true
    done
}

# The text in subwords that data-bin is made of; OUT may have moved.
text_dir() {
    local text
    text=$(cat "$out/data-bin/text")
    [ "$text" != text ] || text=$out/text
    echo "$text"
}

# DATA, or what prepare.sh downloads: text in subwords.  A recipe of other text has its own make_data.
make_data() {
    if [ -n "${DATA:-}" ]; then
        [[ $DATA != *,* ]] || fail "DATA=$DATA must have no comma: it ends the name of a file"
        check_data {train,valid,test}.{"$source_lang","$target_lang"}
    else
        "$here/prepare.sh" "$out/text"
    fi
    binarise "${DATA:-$out/text}"
}

# Text in subwords for a data-bin that is like OUT/data-bin: the same dictionaries.
binarise_alike() { # binarise_alike TRAIN VALID TEST DIR: these are the files without their language
    fairseq-preprocess --source-lang "$source_lang" --target-lang "$target_lang" --trainpref "$1" --validpref "$2" \
        --testpref "$3" --srcdict "$out/data-bin/dict.$source_lang.txt" --tgtdict "$out/data-bin/dict.$target_lang.txt" \
        --destdir "$4" --workers 2 >"$4.log" 2>&1 || fail "fairseq-preprocess failed; all that it said is in $4.log"
}

# DATA must have the files named, and be no directory that the recipe writes.
check_data() {
    local file
    for file in raw normalised; do
        [[ ! ${DATA:-} -ef $out/$file ]] || fail "DATA=$DATA is written by the recipe itself; give another directory OUT=dir"
    done
    for file in "$@"; do
        [ -s "${DATA:-}/$file" ] || fail "DATA=${DATA:-} has no $file; DATA=dir must hold $*"
    done
}

# prepare_raw DIR OPTIONS...: checks and splits the raw text there into subwords: $out/text, $out/data-bin.
prepare_raw() {
    python "$examples/own_data/prepare.py" "$1" "$out" "$source_lang" "$target_lang" "${@:2}"
    binarise "$out/text" >"$out/binarise.log" 2>&1 || {
        tail -n 20 "$out/binarise.log" >&2
        fail "fairseq-preprocess failed; all that it said is in $out/binarise.log"
    }
}

# put_aside N DIR: the last N pairs of DIR/train become valid, DIR/valid becomes test; all of it in $out/raw.
put_aside() {
    local lang
    mkdir -p "$out/raw"
    for lang in "$source_lang" "$target_lang"; do
        head -n "-$1" "$2/train.$lang" >"$out/raw/train.$lang"
        tail -n "$1" "$2/train.$lang" >"$out/raw/valid.$lang"
        cp "$2/valid.$lang" "$out/raw/test.$lang"
    done
}

# binarise DIR: {train,valid,test,test-*} there, with subwords of both languages, to $out/data-bin; of valid 500 lines.
# Bash's set -e does not hold in `binarise ... || ...`, so what fails returns.
binarise() {
    local split lang file tests=$1/test further=()
    for file in "$1"/test-*."$source_lang"; do
        [ -e "$file" ] || break
        further+=("$(basename "${file%.*}")")
        tests+=,${file%.*}
    done
    for split in train valid test "${further[@]}"; do
        python "$examples/own_data/text_checks.py" "$1/$split.$source_lang" "$1/$split.$target_lang" || return
    done
    for lang in "$source_lang" "$target_lang"; do
        sample 500 "$1/valid.$lang" "$out/valid.$lang" || return
    done
    if [ ${#bert_text[@]} != 0 ]; then # of the same sentences
        sample 500 "$1/bert/valid.$source_lang" "$out/valid.bert" || return
        mv "$out/valid.bert" "$1/bert/valid.$source_lang" || return
    fi
    rm -rf "$out/data-bin.new"
    fairseq-preprocess --source-lang "$source_lang" --target-lang "$target_lang" --joined-dictionary \
        --trainpref "$1/train" --validpref "$out/valid" --testpref "$tests" --destdir "$out/data-bin.new" --workers 2 || return
    for split in "${!further[@]}"; do # fairseq has called them test1, test2, ...
        for file in "$out/data-bin.new/test$((split + 1))".*; do
            mv "$file" "$out/data-bin.new/${further[split]}.${file#*"/data-bin.new/test$((split + 1))."}" || return
        done
    done
    if [ "$1" -ef "$out/text" ]; then echo text; else (cd "$1" && pwd); fi >"$out/data-bin.new/text" || return
    mv "$out/data-bin.new" "$out/data-bin"
}

# sample N FROM TO: N lines, evenly, since text may be sorted by length
sample() {
    awk -v n="$1" -v lines="$(awk 'END {print NR}' <"$2")" 'int(NR * n / lines) > int((NR - 1) * n / lines) || lines <= n' <"$2" >"$3"
}
