#!/usr/bin/env bash
# prepare.sh DIR DATA: the last 500 training pairs become DIR/valid, and DATA/valid becomes DIR/test.
set -euo pipefail
for lang in en de; do
    head -n -500 "$2/train.$lang" >"$1/train.$lang"
    tail -n 500 "$2/train.$lang" >"$1/valid.$lang"
    cp "$2/valid.$lang" "$1/test.$lang"
done
