"""Plain text of what Moses tokenised; models for CTranslate2 get a copy of this file, which imports none of ours."""

import re
from typing import Callable

import regex

# What the tokenizer splits off, since it is no letter to it: the half-spaces inside Persian words and _, viramas, which
# join two letters, but also end words in Tamil and Malayalam, and other signs, which belong to the letter before.
_SPLIT_SIGNS = (
    regex.compile(r"(?<=\S) ([\u200c\u200d_]) (?=\S)"),
    regex.compile(r"(?<=\S) ([\p{InSC=Virama}--[\u0bcd\u0d4d]]) (?=\S)", regex.V1),
    regex.compile(r"(?<=\S) (\p{M})"),
)
_APOSTROPHES_ON_A_SIDE = ("en", "fr", "it", "ga")  # there it splits at one side of an apostrophe only
# one between two letters, unless the next one ends a quotation, before a mark or at the end
_SPLIT_APOSTROPHE = regex.compile(r"(?<=[^\W\d_]) (&apos;|') (?=[^\W\d_])(?!(?:(?!\1).)* \1(?: \W|$))")


def detokenizer(code: str, has_spaces: bool) -> Callable[[str], str]:
    """Return what makes plain text of the language *code*, which *has_spaces* between words or not."""
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang=code)
    splits = (*_SPLIT_SIGNS, *([] if code in _APOSTROPHES_ON_A_SIDE else [_SPLIT_APOSTROPHE]))

    def detokenize(text: str) -> str:
        for split in splits:
            text = split.sub(r"\1", text)
        text = str(moses.detokenize(text.split()))
        return text if has_spaces else re.sub("(?<=[^\0-\x7f]) (?=[^\0-\x7f])", "", text)

    return detokenize
