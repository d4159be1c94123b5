#!/usr/bin/env bash
# Runs scripts/test.sh on each supported Python, one version after the other, each in a fresh clone of the last commit and
# in a fresh environment, and prints a table at the end.  The demo is run on the oldest and on the newest version too.
# A clone and its environment are removed after their run; the logs stay.  It takes about a quarter of an hour for each
# version.  The script fails where a version failed, and where nothing was tested.
#
#   scripts/test_matrix.sh [3.9|3.10|3.11|3.12|3.13|3.14|floor|main]... (default: all eight)
#
# "floor" is the oldest of these versions with the lower bounds of setup.py, and "main" is Python 3.11 with the last commit of
# fairseq's repository in the place of fairseq 0.12.2.  For a Python that this system lacks, a chroot will do, as root:
#   debootstrap --variant=minbase --include=python3.14-venv,python3.14-dev,g++,git,ca-certificates sid DIR && chroot DIR
#
# Settings, all optional:
#   CUDA=1       install builds of torch that bring CUDA, some gigabytes each; without it such a version is left out
#   FAIRSEQ_MAIN=URL   where "main" is cloned from, also a local path (default: https://github.com/facebookresearch/fairseq)
#   MATRIX=dir   where logs and results go (default: matrix-out); a version that passed at this commit is not run again
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
all=(3.9 3.10 3.11 3.12 3.13 3.14)
fairseq_main=3d262bb25690e4eb2e7d3c1309b1e9c406ca4b99
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUTF8=1
unset VENV PYTHON TORCH FAIRSEQ DEMO_DIR
source "$root/scripts/find_python.sh"

say() { printf 'matrix: %s\n' "$*"; }

# Says why torch should not be installed; nothing where it may be.
objection() {
    local report=$work/torch.json torch
    [ -z "${CUDA:-}" ] || return
    torch=$(PYTHON=$python VENV=$work/none "$root/scripts/setup.sh" --print-torch)
    "$python" -m venv --clear "$work/bare" && "$work/bare/bin/python" -m pip install -q --dry-run --ignore-installed \
        --report "$report" "$torch" >>"$log" 2>&1 && "$python" - "$report" <<'PYTHON'
import json, sys
names = [item["metadata"]["name"] for item in json.load(open(sys.argv[1], encoding="utf-8"))["install"]]
cuda = sum(name.startswith("nvidia-") for name in names)
if cuda:
    print(f"left out: torch would bring {cuda} packages of CUDA; CUDA=1 installs them")
PYTHON
    rm -rf "$work/bare" "$report"
}

# Runs a command; its output goes to the log, and the end of it to the terminal where the command fails.
step() {
    local name=$1 began=$SECONDS
    shift
    say "$version: $name (log: $log)"
    if "$@" >>"$log" 2>&1; then
        say "$version: $name took $((SECONDS - began)) s"
    else
        say "$version: $name FAILED; the end of $log:"
        tail -n 30 "$log"
        return 1
    fi
}

installed() {
    "$1/.venv/bin/python" -c 'import importlib.metadata as m
print(*(m.version(name).split("+")[0] for name in ("torch", "transformers", "numpy")))' 2>/dev/null || echo "? ? ?"
}

# Tests one version and writes its row.
check() {
    local python log=$work/$version.log clone=$work/clone-$version reason tested demo="-" summary bleu began=$SECONDS
    local number=${version/floor/${all[0]}} source=${FAIRSEQ_MAIN:-https://github.com/facebookresearch/fairseq}
    number=${number/main/3.11}
    : >"$log"
    python=$(find_python "$number") || {
        row "$version" - - - "-" "left out: there is no python$number here"
        return
    }
    reason=$(objection)
    if [ -n "$reason" ]; then
        row "$("$python" -V)" - - - "-" "$reason"
        return
    fi
    rm -rf "$clone" "$work/fairseq"
    git clone -q "$root" "$clone" || return
    if [ "$version" = main ]; then
        if ! { git clone -q "$source" "$work/fairseq" && git -C "$work/fairseq" checkout -q $fairseq_main; } >>"$log" 2>&1; then
            row "$("$python" -V) main" - - - "-" "left out: cannot clone commit ${fairseq_main:0:8} from $source"
            rm -rf "$clone" "$work/fairseq"
            return
        fi
        export FAIRSEQ=$work/fairseq
    fi
    if [ "$version" = floor ]; then
        sed -nE '/install_requires/,/\]/s/^ *"([A-Za-z0-9_.-]+)(\[data\])?>=([0-9.]+).*/\1==\3/p' "$clone/setup.py" >"$work/floor.txt"
        export PIP_CONSTRAINT=$work/floor.txt TORCH
        TORCH=$(grep '^torch==' "$work/floor.txt")
    fi
    export PYTHON=$python
    step "scripts/test.sh" "$clone/scripts/test.sh" --all
    tested=$?
    summary=$(grep -E '^=* ?[0-9]+ (passed|failed).* in |^[0-9]+ (passed|failed).* in ' "$log" | tail -n 1 | tr -d '=')
    if [ $tested = 0 ] && [[ $version = "${all[0]}" || $version = "${all[-1]}" ]]; then
        step "scripts/demo.sh" env DEMO_DIR="$clone/demo-out" "$clone/scripts/demo.sh" || tested=1
        bleu=$(grep -oE 'BLEU = [0-9.]+' "$log" | tail -n 1)
        demo=${bleu:-FAILED}
    fi
    read -r torch transformers numpy < <(installed "$clone")
    row "$("$python" -V)$([[ $version != [a-z]* ]] || echo " $version")" "$torch" "$transformers" "$numpy" "$demo" \
        "$([ $tested = 0 ] || echo 'FAILED: ')${summary% in *}, $(((SECONDS - began) / 60)) min"
    unset PYTHON TORCH FAIRSEQ PIP_CONSTRAINT
    rm -rf "$clone" "$work/fairseq"
    return $tested
}

row() { printf '%-19s %-8s %-13s %-8s %-14s %s\n' "$@" >"$work/$version.row"; }

for version in "$@"; do
    [[ " ${all[*]} floor main " = *" $version "* ]] || {
        echo "test_matrix.sh: error: a version is one of ${all[*]} floor main, got '$version'" >&2
        exit 2
    }
done
[ $# -gt 0 ] || set -- "${all[@]}" floor main
commit=$(git -C "$root" rev-parse HEAD) || exit
[ -z "$(git -C "$root" status --porcelain)" ] || say "changes that are not committed are not tested"
work=${MATRIX:-$root/matrix-out}
mkdir -p "$work"
work=$(cd "$work" && pwd)

failed=0
for version in "$@"; do
    [ "$(cat "$work/$version.passed" 2>/dev/null)" = "$commit" ] && say "$version: passed before" && continue
    rm -f "$work/$version".{row,passed}
    if check; then grep -q "left out" "$work/$version.row" || echo "$commit" >"$work/$version.passed"; else failed=1; fi
done
printf '\n%s, commit %s, %s\n' "$(date -u +%F)" "${commit:0:9}" "$(uname -sm)"
printf '%-19s %-8s %-13s %-8s %-14s %s\n' Python torch transformers numpy demo "scripts/test.sh"
rows=("${@/%/.row}")
(cd "$work" && cat "${rows[@]}" && grep -q passed "${rows[@]}") || failed=1
exit $failed
