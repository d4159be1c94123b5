"""Text that a user types: does it fit the source dictionary?  fairseq says nothing about unknown symbols."""

import logging
import re
import reprlib
from typing import Any, Iterable, List, Optional
from unicodedata import category

from fairseq.data import Dictionary
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer
from fairseq.tokenizer import tokenize_line

from bert_fused_plugin.data.subwords import detect_subword

logger = logging.getLogger(__name__)

_SHARE = 0.05  # share of unknown symbols over which a line is warned of
_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")  # Unicode's categories of controls, formats and spaces
_SYMBOL = re.compile(r"<(?=(s|/s|pad|unk)>(?!\S))")  # where a word that is or ends with a symbol of fairseq is split
_SPLIT_HYPHEN = "@-@"
# a hyphen with a letter or a digit on its left, or one that begins a symbol in which sentencepiece begins no word
_HYPHEN_IN_A_WORD = {False: re.compile(r"\w-(\w|@@$)|^-@@$"), True: re.compile(r"(?<![\u2581-])-(?!-)")}


class TypedText:
    """Looks at lines that are split already, and warns of what does not fit the dictionary."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._subword = detect_subword(dictionary)
        # a bare @@ is of training text in which a word had a no-break space
        self._splits_at_spaces = self._subword == "subword_nmt" and "@@" not in dictionary
        self._has_warned = self._tokenizer_is_checked = False

    def plain(self, line: str) -> str:
        """Return *line*, or nothing if it has no visible character.

        For subword-nmt, any other white space becomes a space, at which it splits words, and a word that is a symbol of
        fairseq, such as ``</s>``, is split, so that it ends no sentence.
        """
        if all(category(sign) in _INVISIBLE for sign in line):
            return ""
        line = re.sub(r"[^\S ]", " ", line) if self._splits_at_spaces else line
        return _SYMBOL.sub("< ", line) if self._subword == "subword_nmt" else line

    def check(self, lines: Iterable[str], tokenizer: Any) -> None:
        """Warn of *lines*, symbols with spaces between them, that fairseq's *tokenizer* has made, if not None."""
        if not self._tokenizer_is_checked and isinstance(tokenizer, MosesTokenizer):
            warning = hyphen_warning(tokenizer.cfg.moses_no_dash_splits, self._dictionary)
            if warning is not None:
                logger.warning(warning)
        self._tokenizer_is_checked = True
        for symbols in map(tokenize_line, lines):
            unknown = [symbol for symbol in symbols if self._dictionary.index(symbol) == self._dictionary.unk()]
            if len(unknown) > _SHARE * len(symbols) and not self._has_warned:
                self._has_warned = True
                logger.warning(self._describe(unknown, len(symbols)))

    def _describe(self, unknown: List[str], size: int) -> str:
        distinct = list(dict.fromkeys(unknown))
        lowered = sum(self._dictionary.index(symbol.lower()) != self._dictionary.unk() for symbol in distinct)
        case = f" ({lowered} of them would be known in lower case)" if lowered else ""
        return (
            f"{len(unknown)} of the {size} symbols of a line ({len(unknown) / size:.0%}) are unknown to the source "
            f"dictionary: {reprlib.repr(distinct)[1:-1]}{case}; a line must be prepared as the training text was, with "
            "its --tokenizer, --moses-no-dash-splits, case, and --bpe with its files; further lines are not reported"
        )


def hyphens_are_split(dictionary: Dictionary) -> Optional[bool]:
    """Return whether Moses split the hyphens of the text of *dictionary*, as ``@-@``; None if no word has a hyphen."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    if any(_SPLIT_HYPHEN in symbol for symbol in symbols):
        return True
    pattern = _HYPHEN_IN_A_WORD[any(symbol.startswith("\u2581") for symbol in symbols)]
    return False if any(pattern.search(symbol) for symbol in symbols) else None


def hyphen_warning(no_dash_splits: bool, dictionary: Dictionary) -> Optional[str]:
    """Return a warning if Moses' tokenizer treats hyphens otherwise than the text of the source *dictionary*."""
    split = hyphens_are_split(dictionary)
    if split != no_dash_splits:
        return None
    if split:
        return (
            "--moses-no-dash-splits leaves hyphens as they are, but the source dictionary has @-@ from the training "
            "text; leave --moses-no-dash-splits out"
        )
    return (
        "--tokenizer moses splits hyphens (well @-@ dressed), but the source dictionary has words with hyphens and no "
        "@-@; leave --tokenizer out if the training text was not tokenised, otherwise add --moses-no-dash-splits"
    )
