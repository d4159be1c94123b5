#!/usr/bin/env bash
# Which share of small changes to bert/, modules/, data/ and criterions/ do the tests notice?  A seeded sample of mutmut's
# mutants; ends in the share for each package and the changes that no test notices.  About half an hour for 400.
# Needs Python 3.10.  mutmut goes into a temporary folder, the changed code into mutants/.
#
#   scripts/mutation.sh [number of mutants]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/setup.sh"
bin=$(cd "${VENV:-$root/.venv}/bin" && pwd)
cd "$root"
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1
started=$SECONDS
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$bin/python" -m pip install -q --disable-pip-version-check --target "$tools" mutmut==3.8.1
export PYTHONPATH=$tools # mutmut puts mutants/ before the installed package
rm -rf mutants

"$bin/python" - "${1:-400}" >"$tools/sample" <<'EOP'
import contextlib, glob, json, os, random, sys

from mutmut import __main__ as mutmut

with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
    os.makedirs("mutants")
    mutmut.copy_src_dir()
    mutmut.copy_also_copy_files()
    mutmut.create_mutants(1)
names = []
for file in glob.glob("mutants/**/*.meta", recursive=True):
    with open(file, encoding="utf-8") as meta:
        names += json.load(meta)["exit_code_by_key"]
print(*random.Random(0).sample(sorted(names), min(int(sys.argv[1]), len(names))), sep="\n")
EOP
mapfile -t sample <"$tools/sample"
"$bin/python" -m mutmut run --max-children 1 "${sample[@]}" >"$tools/log" || { tail -n 30 "$tools/log" && exit 1; }

"$bin/python" - "${sample[@]}" <<'EOP'
import collections, glob, json, sys

from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant

codes = {}
for file in glob.glob("mutants/**/*.meta", recursive=True):
    with open(file, encoding="utf-8") as meta:
        codes.update(json.load(meta)["exit_code_by_key"])
survivors = sorted(name for name in sys.argv[1:] if codes[name] in (0, 5, 33))  # 5, 33: no test runs it
of = collections.Counter(name.split(".")[1] for name in sys.argv[1:])
alive = collections.Counter(name.split(".")[1] for name in survivors)
for package, number in sorted(of.items()):
    print(f"{package:12} {number - alive[package]:4} of {number:4} killed, {100 * (1 - alive[package] / number):.0f} %")
print(f"of {len(codes)} mutants {len(sys.argv) - 1} were run; survivors:")
for name in survivors:
    lines = get_diff_for_mutant(name, path=find_mutant(name).path).splitlines()
    print(name, *(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")), sep="\n")
EOP
printf 'mutation: %d s\n' $((SECONDS - started))
