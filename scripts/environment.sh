# shellcheck shell=bash  # for the demo and the recipes, which set root
# The commands come from the active environment if fairseq and the plug-in are installed there, such as one that was made by
# hand.  Otherwise, and where VENV names another one, setup.sh makes the environment.  What lies in the working directory is
# not installed.
installed='import sys; sys.path.remove(""); from importlib.metadata import version as v; v("fairseq"), v("bert_fused_plugin")'
if [ -n "${VENV:-}" ] || ! PYTHONSAFEPATH= python -c "$installed" 2>/dev/null; then
    "$root/scripts/setup.sh"
    PATH=$(cd "${VENV:-$root/.venv}/bin" && pwd):$PATH
fi
export PATH PYTHONUTF8=1 LC_ALL=C.UTF-8 # awk writes 1.5, not 1,5, and wc knows the letters of all languages
