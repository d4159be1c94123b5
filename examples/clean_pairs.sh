#!/usr/bin/env bash
# Copies parallel text without the pairs that are empty, too long, or too different in length, as Moses'
# clean-corpus-n.perl does: those with a sentence that is empty or has more than WORDS words, or that has more than 1.5
# times as many words as the other one.
#
#   examples/clean_pairs.sh INPUT OUTPUT SRC TGT WORDS      reads INPUT.SRC and INPUT.TGT, writes OUTPUT.SRC and OUTPUT.TGT
set -euo pipefail

[ "$(wc -l <"$1.$3")" = "$(wc -l <"$1.$4")" ] || {
    echo "clean_pairs.sh: error: $1.$3 and $1.$4 must have equally many lines; line N of one translates line N of the other" >&2
    exit 1
}
paste "$1.$3" "$1.$4" | awk -F '\t' -v words="$5" -v source="$2.$3" -v target="$2.$4" '
    {
        n = split($1, unused, " ")
        m = split($2, unused, " ")
        if (n && m && n <= words && m <= words && n <= 1.5 * m && m <= 1.5 * n) {
            print $1 >source
            print $2 >target
        }
    }'
