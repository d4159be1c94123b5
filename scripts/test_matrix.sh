#!/usr/bin/env bash
# Installs and tests the package on each Python from 3.9 to 3.13 that is here, each in a fresh environment, and prints
# a table at the end.  Where no torch is to be had, what needs none is still done: byte-compiling all sources,
# building and installing the wheel, starting Python with its hook.  Fails where something that ran failed.
#
#   scripts/test_matrix.sh [3.9|3.10|3.11|3.12|3.13]...      (default: all five)
#
# Settings, all optional:
#   CUDA=1                install builds of torch that bring CUDA, some gigabytes each; default: skip those
#   TORCH=torch==2.13.0   what to ask pip for as torch (default: the tested version); pip's own settings, such as
#                         PIP_FIND_LINKS and PIP_EXTRA_INDEX_URL, tell it of builds without CUDA
#   TESTS='tests/unit'    what pytest runs (default: the unit tests, and training, resuming, translating, hub)
#   MATRIX=dir            where environments and logs go (default: a temporary folder, removed after success)
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
commands=tests/system/test_commands.py
tests=${TESTS:-tests/unit
    $commands::test_training_that_was_interrupted_ends_as_one_that_was_not
    $commands::test_interactive_translates_as_generate_does
    $commands::test_the_hub_interface_needs_nothing_that_only_training_had}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUTF8=1

say() { printf 'matrix: %s\n' "$*"; }

# The newest interpreter of a version: on PATH, or installed by pyenv.
find_python() {
    local candidate
    for candidate in "python$1" $(printf '%s\n' ~/.pyenv/versions/"$1".*/bin/python | sort -rV); do
        "$candidate" -c "import sys, venv; assert '%d.%d' % sys.version_info[:2] == '$1'; print(sys.executable)" \
            2>/dev/null && return
    done
    return 1
}

# Runs a step; its output goes to the log of the version.
step() {
    local name=$1
    shift
    say "$version: $name"
    "$@" >>"$log" 2>&1 && return
    say "$version: $name FAILED; the end of $log:"
    tail -n 15 "$log"
    return 1
}

compile() {
    PYTHONPYCACHEPREFIX=$work/pyc "$python" -W error -m compileall -q -f \
        "$source"/{bert_fused_plugin,scripts,tests,examples} \
        "$source"/{setup,fairseq_compat{,_checkpoint,_patches}}.py
}

# Without torch: the wheel builds, installs, and its hook is there at each start of Python.
wheel() {
    "$python" -m venv --clear "$work/bare-$version" &&
        "$work/bare-$version/bin/python" -m pip install --no-deps "$source" &&
        (cd "$work" && "bare-$version/bin/python" -W error -c \
            'import fairseq_compat, sys; assert fairseq_compat._Finder in map(type, sys.meta_path)')
}

# Says why torch cannot, or should not, be installed; nothing where it can.
objection() {
    local report=$work/torch-$version.json
    "$work/bare-$version/bin/python" -m pip install --dry-run --ignore-installed --quiet --report "$report" "$torch" \
        >>"$log" 2>&1 || {
        echo "pip finds no $torch"
        return
    }
    [ -n "${CUDA:-}" ] || "$python" - "$report" <<'PYTHON'
import json, sys
names = [item["metadata"]["name"] for item in json.load(open(sys.argv[1], encoding="utf-8"))["install"]]
cuda = sum(name.startswith("nvidia-") for name in names)
if cuda:
    print(f"torch would bring {cuda} packages of CUDA; CUDA=1 installs them")
PYTHON
}

install() {
    VENV=$work/venv-$version PYTHON=$python TORCH=$torch "$source/scripts/setup.sh"
}

run_tests() { # in the words of $tests
    (cd "$source" && "$work/venv-$version/bin/python" -m pytest -q -p no:cacheprovider $tests)
}

# Does all that can be done on one version, and adds its row to the table.
check() {
    local python log=$work/$version.log torch=${TORCH:-torch==2.13.0} reason tested summary
    : >"$log"
    [ "$version" != 3.9 ] || torch=${TORCH:-torch==2.8.0} # the last one for Python 3.9
    python=$(find_python "$version") || {
        row "$version" - - - "no python$version here"
        return
    }
    step "byte-compiling all sources" compile && step "wheel and hook, without torch" wheel || {
        row "$("$python" -V)" - FAILED - "see $log"
        return 1
    }
    reason=$(objection)
    if [ -n "$reason" ]; then
        row "$("$python" -V)" - "wheel, hook" "-" "$reason"
        return
    fi
    step "installing everything" install || {
        row "$("$python" -V)" "$torch" FAILED - "see $log"
        return 1
    }
    torch=$("$work/venv-$version/bin/python" -c 'import torch; print(torch.__version__)')
    step "tests" run_tests
    tested=$?
    summary=$(grep -E '^[0-9]+ (passed|failed).* in ' "$log" | tail -n 1)
    row "$("$python" -V)" "$torch" ok "$([ $tested = 0 ] && echo ok || echo FAILED)" "${summary%% in *}"
    return $tested
}

row() { rows+=("$(printf '%-15s %-16s %-12s %-7s %s' "$@")"); }

for version in "$@"; do
    case $version in 3.9 | 3.1[0-3]) ;; *)
        echo "test_matrix.sh: error: Python must be one of 3.9 to 3.13, got '$version'" >&2
        exit 2
        ;;
    esac
done
[ $# -gt 0 ] || set -- 3.9 3.10 3.11 3.12 3.13
work=${MATRIX:-$(mktemp -d)}
mkdir -p "$work"
work=$(cd "$work" && pwd)
source=$work/source # a copy: what is built and installed leaves nothing in the repository
rm -rf "$source" && mkdir "$source"
(cd "$root" && tar --exclude=__pycache__ -cf - \
    bert_fused_plugin docs examples scripts tests ./*.{py,pth,toml,md} LICENSE MANIFEST.in Makefile) |
    tar -C "$source" -xf -

rows=() failed=0
for version in "$@"; do
    check || failed=1
done
printf '\n%-15s %-16s %-12s %-7s %s\n' Python torch install tests 'result, or why not'
printf '%s\n' "${rows[@]}"
if [ -z "${MATRIX:-}" ] && [ $failed = 0 ]; then rm -rf "$work"; fi
exit $failed
