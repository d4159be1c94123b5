#!/usr/bin/env bash
# Sets up if needed, then runs lint, format check, types and all tests but the slow ones; no network but for set-up.
# Arguments go to pytest: scripts/test.sh -k reorder
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/setup.sh"
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
cd "$root"

export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
echo "test: ruff check"
"$bin/python" -m ruff check .
echo "test: ruff format --check"
"$bin/python" -m ruff format --check .
if "$bin/python" -c 'import mypy' 2>/dev/null; then
    echo "test: mypy"
    "$bin/python" -m mypy
else
    echo "test: mypy skipped: its tested version needs Python 3.10"
fi
echo "test: pytest"
case " $* " in *" -m "*) ;; *) set -- -m "not slow" "$@" ;; esac
# one process for each core; the tests of a file share what they have trained
exec "$bin/python" -m pytest -n auto --dist loadfile "$@"
