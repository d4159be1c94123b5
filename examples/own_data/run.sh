#!/usr/bin/env bash
# bert-fused-recipe on your own text: SRC=en TGT=fr DATA=dir examples/own_data/run.sh [STEP]...
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/scripts/environment.sh"
exec bert-fused-recipe "${SRC:-}" "${TGT:-}" "${DATA:-}" "$@"
