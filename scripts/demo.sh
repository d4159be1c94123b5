#!/usr/bin/env bash
# The whole way in one command: sets up, and gives a small English-German corpus, which a grammar made (examples/demo), to
# bert-fused-recipe, as you would give your own text.  That trains a transformer, the transformer for longer (the
# fair control), and a BERT-fused model that begins with the transformer's parameters, and compares the three.  Then five
# translations are shown, and a picture of what one of them attends to.  No network but for the package index.
#
#   DEMO_DIR=dir   where everything goes (default: demo-out); a demo that was interrupted goes on where it was
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${DEMO_DIR:-demo-out}
mkdir -p "$out"
out=$(cd "$out" && pwd)

say() { printf '\ndemo: %s\n' "$*"; }

source "$root/scripts/environment.sh"
export HF_HUB_OFFLINE=1
# which are exported for one's own text
unset BASELINE BERT BERT_FLAGS BERT_TEXT CACHE_GB CONSISTENCY DEPLOY MONO REVERSE SEED SEEDS START STUDENT TEACHER
started=$SECONDS

say "1/3 transformer, control, BERT-fused model and report, by bert-fused-recipe with small models and batches"
bert-fused-recipe en de "$root/examples/demo" prepare transformer control bert_fused compare --out "$out" --size tiny \
    --subwords subword-nmt --symbols 4000 --updates 300 --more 300 --warmup 100 --lr 0.004 --train-flags \
    "--encoder-layers 3 --decoder-layers 3 --dropout 0.2 --max-tokens 1000 --clip-norm 1.0 ${TRAIN_FLAGS:-}"

say "2/3 five translations of the BERT-fused model (fairseq-generate, beam 5)"
fairseq-generate "$out/data-bin" --user-dir bert_fused_plugin --task bert_fused_translation \
    --path "$out/bert_fused/average.pt" --beam 5 --remove-bpe >"$out/test.out" 2>"$out/test.log" || { cat "$out/test.log" >&2 && exit 1; }
for number in 0 1 2 3 4; do
    for kind in S:source T:reference H:translation; do
        printf '  %-12s %s\n' "${kind#*:}" "$(grep "^${kind%:*}-$number	" "$out/test.out" | sed 's/.*\t//')"
    done
    echo
done

say "3/3 attention"
bert-fused-attention "$out/data-bin" --path "$out/bert_fused/average.pt" --index 0 --output "$out/attention.png"

say "the verdict (more in $out/report.html); everything is in $out, and took $((SECONDS - started)) s"
python - "$out/report.json" <<'PYTHON'
import json, sys

report = json.load(open(sys.argv[1], encoding="utf-8"))
print(*report["verdicts"], *(test["verdict"] for test in report["bert_tests"] if test["verdict"]), sep="\n")
for run in report["runs"]:
    print(f"demo: {run['name']:11} BLEU = {run['scores']['BLEU']['score']:.2f}")
PYTHON
say "next, your own text, such as train.en and train.fr in the folder my-text: bert-fused-recipe en fr my-text"
