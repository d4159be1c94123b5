#!/usr/bin/env bash
# bert-fused-recipe with the settings of settings.yaml: DATA=dir examples/wmt14_en_de/run.sh [STEP]...
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/scripts/environment.sh"
exec bert-fused-recipe en de "${DATA:-}" --settings "$root/examples/wmt14_en_de/settings.yaml" "$@"
