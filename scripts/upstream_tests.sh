#!/usr/bin/env bash
# Runs fairseq's own tests on the fairseq, and with the shim, of this environment.
#   scripts/upstream_tests.sh CHECKOUT [PYTEST_FLAGS]
# CHECKOUT is a clone of fairseq's repository at the version that is installed: branch 0.12.2-release for fairseq 0.12.2, or
# commit 3d262bb2 after FAIRSEQ=CHECKOUT scripts/setup.sh.  It is not changed.  scripts/upstream_exceptions.py lists the tests
# that fail, with reasons; any other failure is an error, and so is an exception that passes.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[ -d "${1:-}/tests" ] && [ -d "${1:-}/fairseq" ] || {
    echo "usage: scripts/upstream_tests.sh CHECKOUT [PYTEST_FLAGS]; CHECKOUT is a clone of fairseq's repository" >&2
    exit 2
}
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
checkout=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# what the tests import and read, without the folder fairseq, which would hide the installed one
for folder in tests examples scripts; do
    ln -s "$checkout/$folder" "$work/$folder"
done
cd "$work"
"$bin/python" -m pip install -q --disable-pip-version-check iopath
PYTHONPATH=$root/scripts "$bin/python" -m pytest tests -q -p upstream_exceptions -p no:cacheprovider -n auto --dist loadfile --timeout 300 "$@"
