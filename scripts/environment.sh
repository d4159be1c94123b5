# shellcheck shell=bash  # for the demo and the recipes, which set root
# The commands come from the active environment if it has them, such as one that was made by hand.  Otherwise, and where VENV
# names another one, setup.sh makes the environment.
if [ -n "${VENV:-}" ] || ! command -v fairseq-train >/dev/null || ! command -v bert-fused-compare >/dev/null; then
    "$root/scripts/setup.sh"
    PATH=$(cd "${VENV:-$root/.venv}/bin" && pwd):$PATH
fi
export PATH PYTHONUTF8=1
