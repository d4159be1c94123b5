#!/usr/bin/env bash
# Copies parallel text without the pairs that are empty, too long, or too different in length, as Moses'
# clean-corpus-n.perl does: those with a sentence that is empty or has more than WORDS words, or that has more than 1.5
# times as many words as the other one.  Words are what spaces separate, so this is not for raw Chinese or Japanese.
#
#   examples/clean_pairs.sh INPUT OUTPUT SRC TGT WORDS      reads INPUT.SRC and INPUT.TGT, writes OUTPUT.SRC and OUTPUT.TGT
set -euo pipefail

[ "$(grep -c '' "$1.$3")" = "$(grep -c '' "$1.$4")" ] || {
    echo "clean_pairs.sh: error: $1.$3 and $1.$4 must have equally many lines; line N of one translates line N of the other" >&2
    exit 1
}
awk -v words="$5" -v targets="$1.$4" -v source="$2.$3" -v target="$2.$4" '
    {
        getline translation <targets
        n = NF
        m = split(translation, unused, " ")
        if (n && m && n <= words && m <= words && n <= 1.5 * m && m <= 1.5 * n) {
            print >source
            print translation >target
        }
    }' "$1.$3"
