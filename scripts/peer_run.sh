#!/usr/bin/env bash
# Runs a project that builds on fairseq, unchanged, on the fairseq, and with the shim, of this environment.
#   scripts/peer_run.sh PROJECT
# PROJECT is one of
#   FAIRSEQ/examples/translation, FAIRSEQ/examples/linformer   folders of a clone of fairseq's repository
#   a checkout of knn-seq (ran at be65b058)   needs: pip install faiss-cpu h5py sentence-transformers httpx 'transformers<5'
#   a checkout of SimulEval (ran at 536de825)   needs: pip install textgrid soundfile pydub tornado yt-dlp matplotlib pandas requests
#   the word ctranslate2   its converter; needs: pip install ctranslate2
# It makes up its text, works in a temporary folder, and ends in one line that says what ran.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
project=${1:?PROJECT is missing; the first lines of this file list the projects}
[ ! -d "$1" ] || project=$(cd "$1" && pwd)
export PATH=$bin:$PATH HF_HUB_OFFLINE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Run a command; show the end of its output only if it fails.
quiet() {
    "$@" >log 2>&1 || {
        tail -n 15 log >&2
        echo "peer_run: failed: $*" >&2
        exit 1
    }
}
# fairseq-train in one process with a module that was imported before it: train_with MODULE FLAGS
train_with() { quiet python -c "import $1, sys; from fairseq_cli.train import cli_main; cli_main()" "${@:2}"; }

tiny=(--encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 --encoder-attention-heads 2)
steps=(--cpu --num-workers 0 --optimizer adam --lr 0.005 --max-update 20)
plain=("${steps[@]}" "${tiny[@]}" --decoder-layers 2 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64
    --decoder-attention-heads 2 --max-tokens 1000 --criterion label_smoothed_cross_entropy --label-smoothing 0.1)
fused=("${plain[@]}" --task bert_fused_translation --arch bert_fused_iwslt_de_en --bert-model bert)
quiet python "$root/examples/demo/make_corpus.py" text --train 300 --valid 50 --test 50
quiet fairseq-preprocess -s en -t de --trainpref text/train --validpref text/valid --testpref text/test --destdir data-bin

# A fused training with another plug-in, each of the two imported first: beside_fused FOLDER
beside_fused() {
    quiet python - <<'PYTHON'
from transformers import BertConfig, BertModel, BertTokenizerFast
with open("vocab.txt", "w") as file:
    words = sorted(set(open("text/train.en").read().lower().split()))
    file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
BertTokenizerFast("vocab.txt").save_pretrained("bert")
sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
BertModel(BertConfig(vocab_size=len(words) + 5, **sizes)).save_pretrained("bert")
PYTHON
    train_with bert_fused_plugin data-bin --user-dir "$1" "${fused[@]}" --save-dir fused-first
    PYTHONPATH=${1%/*}:${PYTHONPATH:-} \
        train_with "${1##*/}" data-bin --user-dir bert_fused_plugin "${fused[@]}" --save-dir fused-second
}

if [ "$project" = ctranslate2 ]; then
    quiet fairseq-train data-bin --arch transformer "${plain[@]}" --save-dir plain
    # without the flag, it refuses what holds the flags of a training; examples/deploy/convert.py does without it
    quiet ct2-fairseq-converter --unsafe_deserialization --model_path plain/checkpoint_best.pt --data_dir data-bin \
        --output_dir ct2
    quiet python -c "import ctranslate2
print(ctranslate2.Translator('ct2').translate_batch([line.split() for line in open('text/test.en')])[0].hypotheses)"
    echo "peer_run: ctranslate2: converted a transformer of 20 updates, and translated 50 sentences"
elif [[ $project == */examples/translation ]]; then
    quiet fairseq-train data-bin --arch transformer_iwslt_de_en --share-decoder-input-output-embed "${plain[@]}" --max-epoch 3 \
        --eval-bleu --eval-bleu-args '{"beam": 5, "max_len_a": 1.2, "max_len_b": 10}' --eval-bleu-detok moses \
        --eval-bleu-remove-bpe --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --save-dir plain
    # the script reads checkpoints by torch.load, which refuses them since torch 2.6; bert-fused-average does without this
    TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 quiet python "$project/../../scripts/average_checkpoints.py" --inputs plain \
        --num-epoch-checkpoints 2 --output average.pt
    quiet fairseq-generate data-bin --cpu --path average.pt --batch-size 128 --beam 5 --remove-bpe
    bleu=$(tail -n 1 log)
    head -n 5 text/test.en >raw
    quiet fairseq-interactive data-bin --cpu --path average.pt --input raw --beam 5 --tokenizer moses -s en -t de
    echo "peer_run: examples/translation: trained, averaged, translated; ${bleu%%,*}"
elif [ -d "$project/linformer_src" ]; then
    quiet fairseq-preprocess --only-source --trainpref text/train.en --validpref text/valid.en --destdir lm-bin
    masked=(lm-bin --task masked_lm --criterion masked_lm --arch linformer_roberta_base --tokens-per-sample 64
        --sample-break-mode complete --batch-size 8 "${steps[@]}" "${tiny[@]}")
    quiet fairseq-train --user-dir "$project/linformer_src" "${masked[@]}" --save-dir masked
    quiet fairseq-validate lm-bin --cpu --user-dir "$project/linformer_src" --task masked_lm --batch-size 8 \
        --path masked/checkpoint_best.pt
    train_with bert_fused_plugin --user-dir "$project/linformer_src" "${masked[@]}" --save-dir masked-second
    beside_fused "$project/linformer_src"
    echo "peer_run: examples/linformer: trained and validated; trained beside bert_fused_plugin"
elif [ -d "$project/knn_seq" ]; then
    quiet fairseq-train data-bin --arch transformer "${plain[@]}" --save-dir plain
    model=(--path plain/checkpoint_best.pt --knn-key ffn_in --cpu --max-tokens 2000 --num-workers 0)
    (
        export PYTHONPATH=$project:${PYTHONPATH:-}
        quiet python "$project/knn_seq/cli/store_values.py" -s en -t de --srcdict data-bin/dict.en.txt \
            --tgtdict data-bin/dict.de.txt --trainpref text/train store
        quiet python "$project/knn_seq/cli/store_keys.py" "${model[@]}" --knn-value-path store/values.bin store
        quiet python "$project/knn_seq/cli/build_index.py" --key-storage store/keys.ffn_in.bin --index-path-prefix store/index \
            --train-size 2000 --chunk-size 2000 --metric l2
    )
    quiet fairseq-generate data-bin --user-dir "$project/knn_seq" --task translation_knn "${model[@]}" --beam 5 \
        --knn-index-path store/index.bin --knn-value-path store/values.bin --knn-topk 8 --knn-weight 0.5
    bleu=$(tail -n 1 log)
    train_with bert_fused_plugin data-bin --user-dir "$project/knn_seq" --task translation_knn --arch transformer "${plain[@]}"
    beside_fused "$project/knn_seq"
    echo "peer_run: knn-seq: trained, indexed, translated by neighbours; ${bleu%%,*}; trained beside bert_fused_plugin"
elif [ -d "$project/simuleval" ]; then
    quiet python -c "import sentencepiece as spm
spm.SentencePieceTrainer.train(input='text/train.en', model_prefix='spm', vocab_size=80)
pieces = spm.SentencePieceProcessor(model_file='spm.model').encode(open('text/test.en').read().splitlines(), out_type=str)
open('pieces', 'w').writelines(' '.join(line) + '\\n' for line in pieces)"
    # the agent of its quick start that uses fairseq
    PYTHONPATH=$project quiet python -m simuleval.cli --source pieces --target text/test.en --output out --segment-k 3 \
        --agent-class examples.quick_start.spm_detokenizer_agent.DummyPipeline --sentencepiece-model spm.model
    echo "peer_run: SimulEval: its agent that detokenises with fairseq read $(wc -l <out/instances.log) sentences"
else
    echo "peer_run: $1 is none of the projects that this script knows; its first lines list them" >&2
    exit 2
fi
