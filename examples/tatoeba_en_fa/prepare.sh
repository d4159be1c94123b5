#!/usr/bin/env bash
# prepare.sh DIR DATA: normalises, and the last 200 training pairs become DIR/valid, and DATA/valid becomes DIR/test.
set -euo pipefail
normalised() { if [ "${1##*.}" = fa ]; then python "$(dirname "$0")/normalise.py" <"$1"; else cat "$1"; fi; }
for lang in en fa; do
    normalised "$2/train.$lang" >"$1/all.$lang"
    head -n -200 "$1/all.$lang" >"$1/train.$lang"
    tail -n 200 "$1/all.$lang" >"$1/valid.$lang"
    normalised "$2/valid.$lang" >"$1/test.$lang"
done
rm "$1"/all.*
