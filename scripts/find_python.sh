# shellcheck shell=bash  # sourced by test_matrix.sh and release.sh
# The newest interpreter of a version: on PATH, or installed by pyenv.
find_python() {
    local candidate
    for candidate in "python$1" $(printf '%s\n' ~/.pyenv/versions/"$1".*/bin/python | sort -rV); do
        "$candidate" -c "import sys, venv; assert '%d.%d' % sys.version_info[:2] == '$1'; print(sys.executable)" \
            2>/dev/null && return
    done
    return 1
}
