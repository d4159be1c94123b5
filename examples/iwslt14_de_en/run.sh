#!/usr/bin/env bash
# bert-fused-recipe with the settings of settings.yaml: DATA=dir examples/iwslt14_de_en/run.sh [STEP]...
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/scripts/environment.sh"
exec bert-fused-recipe de en "${DATA:-}" --settings "$root/examples/iwslt14_de_en/settings.yaml" "$@"
