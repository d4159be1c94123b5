#!/usr/bin/env bash
# Makes the virtual environment .venv: this package (editable), stock fairseq and the tools.
# Does nothing where it is up to date.  Settings, all optional:
#   PYTHON=python3.12     the interpreter to build on (3.9 to 3.14; default: the first that fits)
#   VENV=/some/folder     where the environment goes (default: .venv in the repository)
#   TORCH=torch==2.13.0   what to ask pip for as torch
#   FAIRSEQ=/some/folder  a checkout of fairseq's repository, a wheel, or what to ask pip for (default: fairseq==0.12.2)
#   PIP_CONSTRAINT=$PWD/constraints.txt   on Python 3.11: the versions that were tested, exactly
# scripts/setup.sh --print-torch says what it would ask pip for, and installs nothing.
set -euo pipefail
export PIP_DISABLE_PIP_VERSION_CHECK=1

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${VENV:-$root/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
made=$venv/made-by-setup    # only such an environment may be made anew
choices=$venv/setup-choices # an earlier TORCH= and FAIRSEQ=
stamp=$venv/setup-stamp     # what was installed
log=$venv/setup.log

say() { printf 'setup: %s\n' "$*"; }

fail() {
    printf 'setup: error: %s\n' "$@" >&2
    exit 1
}

chosen() { sed -n "s/^$1=//p" "$choices" 2>/dev/null || true; }

# The real interpreter behind a command, or nothing where its version does not fit.
base_of() {
    "$1" -c 'import os, sys
if (3, 9) <= sys.version_info[:2] <= (3, 14): print(os.path.realpath(sys.executable))' 2>/dev/null
}

find_python() {
    local candidate base
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON: no such command"
        base=$(base_of "$PYTHON") && [ -n "$base" ] ||
            fail "PYTHON=$PYTHON is $("$PYTHON" --version 2>&1 | head -n 1 || true); 3.9 to 3.14 is needed." \
                "Set PYTHON= to one of those." "$other_python"
        echo "$base"
        return
    fi
    for candidate in "$venv/bin/python" python3 python3.11 python3.12 python3.13 python3.14 python3.10 python3.9; do
        base=$(base_of "$candidate") && [ -n "$base" ] && echo "$base" && return
    done
    found=$(python3 --version 2>/dev/null || echo "no python3")
    fail "3.9 to 3.14 is needed, and there is $found. Install another one beside it, or name it: PYTHON=/path/to/python $0" \
        "$other_python"
}
other_python="Without a package of the system (apt install python3.13-dev python3.13-venv): uv python install 3.13 && \
PYTHON=\$(uv python find 3.13) $0, or conda create -n py313 python=3.13"

wanted_stamp() {
    {
        cat "$root/setup.py" "$root/pyproject.toml" "$root/scripts/setup.sh" "$root"/*.pth
        echo "$root $python $torch $fairseq $fairseq_is"
    } | cksum
    echo "${PIP_CONSTRAINT:-}"
}

make_venv() {
    local made_as
    if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ]; then
        fail "VENV=$venv exists and is no virtual environment. Name another folder, or remove it."
    fi
    if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        # that of a clone that was moved or copied names its old place in all commands
        made_as=$(sed -n "s/.*VIRTUAL_ENV=[\"']\{0,1\}\//\//p" "$venv/bin/activate" 2>/dev/null | tail -n 1 | tr -d "\"'") || true
        [ "$(base_of "$venv/bin/python")" = "$python" ] && { [ -z "$made_as" ] || [ "$made_as" -ef "$venv" ]; } && return
    fi
    if [ -e "$venv" ] && [ ! -e "$made" ]; then
        fail "VENV=$venv was made by hand, and not with $python, not here, or without pip." \
            "Remove it, name another folder with VENV=, or leave PYTHON= away."
    fi
    say "making $venv with $("$python" --version) ($python)"
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "$python has no venv module. Install it (Debian, Ubuntu: apt install python$version-venv)," \
            "or name another Python: PYTHON=/path/to/python $0"
    "$python" -m venv --clear "$venv" || fail "$python cannot make a virtual environment in $venv"
    touch "$made"
}

# pip's milestones go to the terminal, all of its output to the log.
run_pip() {
    "$venv/bin/python" -m pip "$@" 2>&1 | tee -a "$log" |
        { grep --line-buffered -E '^ *(Downloading|Building|Installing|Success|ERROR)' || true; } |
        cut -c 1-120
}

# pip unpacks wheels in the folder for temporary files, and the largest one of torch has 2 GB.
check_room() {
    local room
    room=$(df -Pk "${TMPDIR:-/tmp}" | awk 'END { print int($4 / 1048576) }')
    [ "$room" -ge 3 ] || say "warning: ${TMPDIR:-/tmp} has $room GB free, and pip may need 3 there; set TMPDIR= to another folder"
}

# install COMMAND MESSAGE ARGUMENTS: a command of pip
install() {
    local started=$SECONDS command=$1
    say "$2"
    shift 2
    if ! run_pip "$command" "$@"; then
        printf '%s\n' '--- the last lines of pip:' >&2
        tail -n 15 "$log" >&2
        fail "pip $command failed: $*" ${lacks:+"$lacks"} "All of its output: $log" \
            "Is the package index reachable from here (network, proxy, pip's index-url)?" \
            "No build of torch for this Python? Choose another with TORCH= or PYTHON=."
    fi
    say "done in $((SECONDS - started)) s"
}

torch_there() { "$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null || true; }

# What it takes to compile fairseq, and is not here.
missing_tools() {
    "$python" - <<'PYTHON'
import os, shutil, sysconfig
compilers = [(os.environ.get(kind) or sysconfig.get_config_var(kind) or "c++").split()[0] for kind in ("CC", "CXX")]
headers = os.path.exists(sysconfig.get_path("include") + "/Python.h")
print(*filter(lambda name: not shutil.which(name), compilers), *[] if headers else ["Python.h"], sep=", ")
PYTHON
}

python=$(find_python)
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
chosen_torch=${TORCH:-$(chosen TORCH)} torch=$chosen_torch
if [ -z "$torch" ]; then # the tested version; an open range would take the newest
    torch=torch==2.13.0
    case $("$python" -V) in *" 3.9."*) torch=torch==2.8.0 ;; esac # the last one for Python 3.9
fi
[ "${1:-}" != --print-torch ] || { echo "$torch" && exit; }
earlier_fairseq=$(chosen FAIRSEQ) chosen_fairseq=${FAIRSEQ:-$(chosen FAIRSEQ)}
[ ! -e "$chosen_fairseq" ] || chosen_fairseq=$(realpath "$chosen_fairseq")
fairseq=${chosen_fairseq:-fairseq==0.12.2}
fairseq_is=$(git -C "$fairseq" rev-parse HEAD 2>/dev/null || cksum "$fairseq" 2>/dev/null || true) # of a checkout or a wheel
how=(--no-deps "$fairseq") needs=() from="built from source, half a minute" lacks= wheels=$venv/wheels
# The repository's setup.py imports torch, and pip would download one more for the build; fairseq's main imports sklearn.
case $fairseq in
    *.whl) from="a wheel" ;;
    */*) how=(--no-build-isolation "${how[@]}") needs=(scikit-learn wheel) from="built from source, some minutes" ;;
esac

# Every start of Python reads the hook; compiled, also where Python itself may not write .pyc files.
compile_hook() { "$venv/bin/python" -m compileall -q "$root"/fairseq_compat || true; }

wanted=$(wanted_stamp)
end_if_done() {
    # or with a PIP_CONSTRAINT
    [[ -x $venv/bin/fairseq-train && $(cat "$stamp" 2>/dev/null) = "$wanted"* ]] || return 0
    compile_hook
    say "$venv is up to date"
    exit 0
}

end_if_done # also where another user made it
mkdir -p "$(dirname "$venv")"
# One set-up at a time: a second one waits, then finds the work done.  Not all file systems have locks.
if command -v flock >/dev/null; then
    exec 9>"$venv.lock"
    flock -n 9 || [ $? != 1 ] || { say "waiting for another set-up of $venv" && flock 9; }
    end_if_done
fi
make_venv
earlier_torch=$(chosen TORCH)
rm -f "$stamp"
printf 'TORCH=%s\nFAIRSEQ=%s\n' "$chosen_torch" "$chosen_fairseq" >"$choices.new" && mv "$choices.new" "$choices"
: >"$log"
# All fairseqs call themselves 0.12.2, and torch 2.13.0+cpu is a 2.13.0, so pip would keep the other one.
[[ $earlier_fairseq = "$chosen_fairseq" && -z $fairseq_is ]] || "$venv/bin/python" -m pip uninstall -y fairseq >>"$log" 2>&1
[[ $earlier_torch = "$chosen_torch" || torch==$(torch_there) = "$torch" ]] || "$venv/bin/python" -m pip uninstall -y torch >>"$log" 2>&1
# An older pip installs no hook.
run_pip install -q "pip>=21.3"
if [ "$from" != "a wheel" ]; then
    lacks=$(missing_tools)
    lacks=${lacks:+"what compiles fairseq is missing: $lacks; install it (apt install g++ python$version-dev, dnf install gcc-c++ \
python$version-devel, or conda install cxx-compiler), or give a wheel of fairseq: FAIRSEQ=FILE.whl (scripts/release.sh makes one)"}
    [ -z "$lacks" ] || say "warning: $lacks"
fi
# torch together with the package, so that the package's open range finds the tested version.
check_room
# Where CUDA_HOME is set, fairseq's repository also compiles kernels that nothing here uses, and fails if that CUDA is of
# another version than torch's.
unset CUDA_HOME
# What may fail comes before the gigabytes of torch: fairseq from PyPI is built now, and a checkout, which needs torch, later.
if [ ${#needs[@]} = 0 ] && [ "$from" != "a wheel" ]; then
    install wheel "1/4 stock $fairseq ($from)" --wheel-dir "$wheels" "${how[@]}"
    how=(--no-deps "$wheels"/fairseq-*.whl) from="a wheel"
fi
install install "2/4 $torch and bert_fused_plugin (a minute or two)" "$torch" -e "$root" ${needs[@]+"${needs[@]}"}
# fairseq's own pins cannot be met today; what it needs came with the package.
install install "3/4 stock $fairseq ($from)" "${how[@]}"
rm -rf "$wheels"
say "4/4 tools for tests, plots and deployment"
for extra in dev deploy japanese plots sparse; do # dev has all others
    if run_pip install -e "$root[$extra]"; then
        [ "$extra" != dev ] || break
    else
        say "warning: pip could not install the extra $extra, which training and translation do not need ($log)"
    fi
done
"$venv/bin/python" -c 'import fairseq_compat, fairseq, bert_fused_plugin' >>"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    fail "all is installed, but importing it fails: see above, and $log"
}
compile_hook
echo "$wanted" >"$stamp"
say "ready: source $venv/bin/activate"
