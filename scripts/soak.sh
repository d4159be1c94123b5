#!/usr/bin/env bash
# The tests of reliability in their long form: fifty kills, ten thousand lines, thousands of updates, each pair of flags.  Some
# hours on two cores; ends in a table of what was seen.
#
#   scripts/soak.sh [arguments for pytest]...
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/setup.sh" || exit
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
cd "$root" || exit
SOAK=$(mktemp)
export SOAK HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
started=$SECONDS
"$bin/python" -m pytest -q -n auto --dist loadfile \
    tests/plugin/system/test_{interruptions,nasty_lines,long_runs,full_disk,untrusted_files,pinned,flag_pairs}.py "$@"
status=$?
printf '\nsoak: %d s\n' $((SECONDS - started))
"$bin/python" -c 'import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    print("{:58} {}".format(*json.loads(line)))' "$SOAK"
rm -f "$SOAK"
exit $status
