"""Persian text in one spelling: standard input to standard output, line by line.

- Letters of Arabic keyboards become the Persian ones: yeh (U+064A, U+0649) U+06CC, kaf (U+0643) U+06A9, heh with
  hamza above (U+0647 U+0654) becomes one letter (U+06C0); Arabic digits become Persian digits.
- Vowel marks (U+064C to U+0652) and the stretching tatweel (U+0640) go; the tanwin of adverbs (U+064B) stays.
- The half-space (zero width non-joiner, U+200C) stays between letters, once; beside a space, or at an end, it goes.
  Other invisible characters (U+200B, U+200D to U+200F, U+202A to U+202E, U+2066 to U+2069, U+FEFF) go.
- The verbal prefixes می and نمی, and the plural ending ها, are joined with a half-space where they stand alone, as the
  Academy of Persian Language and Literature writes them.
- Spaces of any kind become one.

As ISIRI 6219 (information technology, Persian information interchange) and the Unicode Standard, chapter 9.2.
"""

import re
import sys
import unicodedata

HALF_SPACE = "\N{ZERO WIDTH NON-JOINER}"
SAME = {0x064A: 0x06CC, 0x0649: 0x06CC, 0x0643: 0x06A9, 0x0640: None}
SAME.update({0x0660 + digit: 0x06F0 + digit for digit in range(10)})
SAME.update(dict.fromkeys([*range(0x064C, 0x0653), 0x200B, *range(0x200D, 0x2010), 0xFEFF]))
SAME.update(dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
STRAY = re.compile(f"[ {HALF_SPACE}]* [ {HALF_SPACE}]*")
PREFIX = re.compile(r"(?<!\S)(ن?می) (?=[^\W\d_])")
ENDING = re.compile(r"(?<=[^\W\d_]) (ها|های|هایی|هایم|هایت|هایش)(?!\w)")


def normalise(line: str) -> str:
    """Return a line of Persian in the spelling described above."""
    line = unicodedata.normalize("NFC", unicodedata.normalize("NFC", line).translate(SAME))
    line = " ".join(line.replace("\u0647\u0654", "\u06c0").split())  # which NFC leaves apart
    line = re.sub(f"{HALF_SPACE}+", HALF_SPACE, STRAY.sub(" ", line)).strip(f" {HALF_SPACE}")
    return ENDING.sub(HALF_SPACE + r"\1", PREFIX.sub(r"\1" + HALF_SPACE, line))


if __name__ == "__main__":
    for text in sys.stdin:
        print(normalise(text))
