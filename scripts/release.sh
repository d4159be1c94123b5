#!/usr/bin/env bash
# Makes what a release consists of, in dist/, from the last commit, and tries it as a stranger would: an sdist and a wheel; a
# wheel of fairseq 0.12.2 for each Python, for machines without a compiler; and the demo's model as an archive.  On each
# Python, the wheel and the sdist go into fresh environments, where fairseq's commands train and translate in an empty folder.
# Nothing is uploaded.  Needs a package index, and for each Python some gigabytes, unless the index has CPU builds of torch.
#
#   scripts/release.sh [3.9|3.10|3.11|3.12|3.13|3.14]...      (default: 3.9 3.14)
#
#   DEMO_DIR=dir   the demo whose model is packed (default: demo-out; it is run if its model is not there)
#   TORCH=         what pip is asked for as torch (default: as scripts/setup.sh)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
demo=${DEMO_DIR:-$root/demo-out} dist=$root/dist model=bert_fused_demo
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUTF8=1 HF_HUB_OFFLINE=1
unset PYTHONPATH FAIRSEQ
source "$root/scripts/find_python.sh"

say() { printf 'release: %s\n' "$*"; }

# fresh NAME PACKAGE: a fresh environment with the package, in which a model is trained, and translates.
fresh() {
    local name=$1 package=$2
    say "$name: $("$python" -V), $(basename "$package"), $torch"
    : >"$log"
    "$python" -m venv "$work/$name"
    (
        PATH=$work/$name/bin:$PATH
        mkdir "$work/$name-trial"
        cd "$work/$name-trial"
        pip install -q "$torch" "$package"
        pip wheel -q --no-cache-dir --no-deps -w "$dist" fairseq==0.12.2  # one of the cache may be of another numpy
        pip install -q --no-deps --no-index --find-links "$dist" fairseq
        trial >"$log" 2>&1
    )
}

trial() {
    mkdir text
    for file in "$root"/examples/demo/*; do head -n 100 "$file" >"text/${file##*/}"; done
    fairseq-preprocess --source-lang en --target-lang de --joined-dictionary \
        --trainpref text/train --validpref text/valid --testpref text/test --destdir data-bin
    fairseq-train data-bin --user-dir bert_fused_plugin --task bert_fused_translation --arch bert_fused_tiny \
        --bert-model "$root/tests/pinned/fused/bert" --criterion bert_fused_label_smoothed_cross_entropy \
        --optimizer adam --lr 0.001 --max-tokens 500 --max-update 10 --save-dir save --cpu
    fairseq-generate data-bin --user-dir bert_fused_plugin --task bert_fused_translation \
        --path save/checkpoint_last.pt --beam 2 --max-len-b 10 --cpu >translations
    [ "$(grep -c '^H-' translations)" = 100 ]
}

pack() { # the demo's model, which the interpreter loads elsewhere
    [ -e "$demo/bert_fused/average.pt" ] || DEMO_DIR=$demo "$root/scripts/demo.sh"
    "$bin/bert-fused-export" "$demo/bert_fused/average.pt" "$demo/data-bin" --codes "$demo/text/codes" --with-bert \
        --output "$work/$model"
    tar -C "$work" -czf "$dist/$model.tar.gz" "$model"
    mkdir "$work/elsewhere"
    tar -C "$work/elsewhere" -xzf "$dist/$model.tar.gz"
    cd "$work/elsewhere"
    "$1" -c "from bert_fused_plugin.models.bert_fused import BertFusedModel
print(BertFusedModel.from_pretrained('$model').translate('The doctor has read the letter .', beam=5))"
}

[ $# -gt 0 ] || set -- 3.9 3.14
for version in "$@"; do
    find_python "$version" >/dev/null || { echo "release.sh: error: there is no Python $version here" >&2 && exit 2; }
done
work=$(mktemp -d)
log=$work/log # of what runs at the moment
: >"$log"
trap '[ $? = 0 ] || tail -n 30 "$log" >&2; rm -rf "$work"' EXIT
"$root/scripts/setup.sh"
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
"$bin/python" -m venv "$work/tools"
"$work/tools/bin/python" -m pip install -q build twine
rm -rf "$dist"
mkdir "$work/source"
git -C "$root" archive HEAD | tar -C "$work/source" -x
"$work/tools/bin/python" -m build --outdir "$dist" "$work/source" >"$log" 2>&1
"$work/tools/bin/twine" check "$dist"/*
for version in "$@"; do
    python=$(find_python "$version")
    torch=${TORCH:-$(PYTHON=$python VENV=$work/none "$root/scripts/setup.sh" --print-torch)}
    fresh "wheel-$version" "$dist"/bert_fused_plugin-*.whl
    fresh "sdist-$version" "$dist"/bert_fused_plugin-*.tar.gz
done
pack "$work/wheel-$version/bin/python"
say "passed; ready to upload (after setup.py and CITATION.cff name the owner for OWNER):"
ls -sh "$dist"
