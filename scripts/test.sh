#!/usr/bin/env bash
# Sets up if needed, then runs lint, format check, types and tests, or chosen tests alone; no network but for set-up.
#   scripts/test.sh                  the tests that find most, in three minutes on two cores
#   scripts/test.sh --all            all tests but the slow ones, as continuous integration does
#   scripts/test.sh --check          no tests
#   scripts/test.sh PYTEST_FLAGS     these tests alone: scripts/test.sh -k reorder; scripts/test.sh -m gpu
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/setup.sh"
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
cd "$root"

export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
if [[ $# = 0 || $1 = --all || $1 = --check ]]; then
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
fi
[ "${1:-}" != --check ] || exit 0
echo "test: pytest"
# tests/conftest.py says which tests are core, and which are around the package
if [ $# = 0 ]; then
    set -- -m "not slow and not around and not further and (core or not system)"
else
    [ "$1" != --all ] || shift
    case " $* " in *" -m "*) ;; *) set -- -m "not slow" "$@" ;; esac
fi
# one process for each core; the tests of a file share what they have trained
exec "$bin/python" -m pytest -n auto --dist loadfile "$@"
