"""The kinds of subwords: how a dictionary shows them, how they become text again, and languages without spaces."""

import hashlib
import re
from itertools import groupby
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from fairseq.data import Dictionary
from fairseq.data.encoders.byte_bpe import ByteBPE
from fairseq.data.encoders.byte_utils import BCHAR_TO_BYTE
from langcodes import Language, tag_is_valid
from langcodes.tag_parser import LanguageTagError

_OTHERS = re.compile(f"([^{re.escape(''.join(BCHAR_TO_BYTE))}\u2581]+)")  # characters that stand for no byte

Join = Callable[[Sequence[str]], str]

_SPACE = "\u2581"  # sentencepiece's mark of a space
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
# symbols that stand in a dictionary of any kind: the padding of fairseq-preprocess, and tags
_OF_ANY_KIND = re.compile(r"madeupword\d+|<.*>|__.*__|\[.*\]")
_FEWEST_NUMBERS = 100  # a dictionary of at most so many symbols that are numbers may be that of a toy task

# sacreBLEU's tokenisers that need no download and no other package, and the codes of their languages (ISO 639)
_CODES = {"zh": "zh yue wuu lzh", "char": "ja th lo km my shn bo dz"}
# names that people give to their files; by the standard, src is a variety of Sardinian
_NO_CODES = {"cn": "zh", "cz": "cs", "jp": "ja", "src": "src"}
_TOKENIZERS = {code: tokenizer for tokenizer, codes in _CODES.items() for code in codes.split()}


class Subwords(NamedTuple):
    """A kind of subwords."""

    share: Callable[[Sequence[str]], float]  # the share of symbols that show this kind, among all symbols of one
    join: Optional[Join] = None  # makes text of symbols; None if the symbols alone do not tell the text
    bpe: Tuple[str, ...] = ()  # kinds of fairseq's --bpe that can join the symbols with their files
    goes_on: Callable[[str, str], bool] = lambda before, symbol: False  # whether *symbol* goes on with the word
    sign: str = ""  # what a dictionary of this kind shows, for messages about kinds without *join*


def detect_subword(dictionary: Dictionary) -> str:
    """Return the kind of subwords whose sign more than 1 % of the symbols of *dictionary* show, or ``none``."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    shares = {name: kind.share(symbols) for name, kind in SUBWORDS.items()} if symbols else {"none": 0.0}
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] > 0.01 else "none"


def cannot_join(name: str, dictionary: Dictionary) -> str:
    """Return the sentence that says why BERT cannot read the subwords *name* of the source *dictionary*."""
    kind, symbols = SUBWORDS[name], dictionary.symbols[dictionary.nspecial :]
    example = next((symbol for symbol in symbols if kind.share([symbol] * (_FEWEST_NUMBERS + 1))), "")
    files = f"--bpe {' or '.join(kind.bpe)} with the files that made the subwords, or " if kind.bpe else ""
    return (
        f"the source dictionary: {kind.share(symbols):.0%} of the symbols are {kind.sign}, such as {example}, but BERT "
        f"must read text, and these symbols alone do not tell the text; give {files}the raw source text with "
        "--bert-text DIR (--task bert_fused_translation), or give --bert-subword none if these symbols are words"
    )


def join_by_bpe(encoder: Any, dictionary: Dictionary) -> Tuple[Join, str]:
    """Return what makes text of numbers by *encoder*, fairseq's ``--bpe``, and a hash.

    Raises:
        ValueError: the encoder does not know a number in *dictionary*.
    """
    digest = hashlib.sha256()
    for symbol in filter(_is_number, dictionary.symbols):
        try:
            text = str(encoder.decode(symbol))
        except (KeyError, TypeError):  # what fairseq's gpt2 raises for an unknown number
            text = ""
        if not text:
            raise ValueError(f"they do not have the number {symbol} of the dictionary")
        digest.update(f"{symbol} {text}\n".encode())

    def join(symbols: Sequence[str]) -> str:
        runs = ((numbers, " ".join(run)) for numbers, run in groupby(symbols, key=_is_number))
        return "".join(encoder.decode(run) if numbers else f" {run} " for numbers, run in runs).strip()

    return join, digest.hexdigest()[:16]


def _share_of(is_marked: Callable[[str], bool]) -> Callable[[Sequence[str]], float]:
    return lambda symbols: sum(map(is_marked, symbols)) / len(symbols)


def _unless_it_begins(mark: str) -> Callable[[str, str], bool]:
    return lambda before, symbol: not symbol.startswith(mark)


def _share_of_sentencepiece(symbols: Sequence[str]) -> float:
    """Return the share of pieces that begin a word or are bytes, or 1 if the mark of a space is a frequent symbol."""
    # as in text without spaces, where few pieces begin a word, and in that of --bpe characters
    if _SPACE in symbols[: max(10, len(symbols) // 10)]:
        return 1.0
    return _share_of(lambda symbol: symbol.startswith(_SPACE) or _BYTE_PIECE.fullmatch(symbol) is not None)(symbols)


def join_sentencepiece(symbols: Sequence[str]) -> str:
    """Return the text of pieces of sentencepiece; fairseq's own decoder leaves those that are bytes as they are."""
    text = ""
    for is_bytes, run in groupby(symbols, key=lambda symbol: _BYTE_PIECE.fullmatch(symbol) is not None):
        if is_bytes:
            text += bytes(int(symbol[3:5], 16) for symbol in run).decode("utf-8", "replace")
        else:
            text += "".join(run).replace(_SPACE, " ")
    return text.strip()


def _join_word_piece(symbols: Sequence[str]) -> str:
    # the decoder leaves the mark of the first symbol, which follows an unknown one
    rest = [symbol[2:] if i == 0 and symbol.startswith("##") else symbol for i, symbol in enumerate(symbols)]
    from tokenizers import decoders

    return str(decoders.WordPiece(prefix="##", cleanup=True).decode(rest)).strip()


def _join_byte_level(symbols: Sequence[str]) -> str:
    from tokenizers import decoders

    return str(decoders.ByteLevel().decode(list(symbols))).strip()


def _is_number(symbol: str) -> bool:
    return symbol.isascii() and symbol.isdecimal()


def _share_of_numbers(symbols: Sequence[str]) -> float:
    subwords = [symbol for symbol in symbols if not _OF_ANY_KIND.fullmatch(symbol)]
    numbers = sum(map(_is_number, subwords))
    return numbers / len(subwords) if len(subwords) > _FEWEST_NUMBERS and numbers > 0.99 * len(subwords) else 0.0


SUBWORDS: Dict[str, Subwords] = {
    "subword_nmt": Subwords(
        _share_of(lambda symbol: symbol.endswith("@@")),
        lambda symbols: (" ".join(symbols) + " ").replace("@@ ", "").strip(),
        goes_on=lambda before, symbol: before.endswith("@@"),
    ),
    "byte_bpe": Subwords(
        lambda symbols: 0.0,  # they look like text in a Latin script
        lambda symbols: decode_byte_bpe("".join(symbols)),
        goes_on=_unless_it_begins(_SPACE),
    ),
    "sentencepiece": Subwords(_share_of_sentencepiece, join_sentencepiece, goes_on=_unless_it_begins(_SPACE)),
    "word_piece": Subwords(
        _share_of(lambda symbol: symbol.startswith("##") and len(symbol) > 2),
        _join_word_piece,
        goes_on=lambda before, symbol: symbol.startswith("##"),
    ),
    "byte_level": Subwords(
        _share_of(lambda symbol: symbol.startswith("\u0120")), _join_byte_level, goes_on=_unless_it_begins("\u0120")
    ),
    "end_of_word": Subwords(
        _share_of(lambda symbol: symbol.endswith("</w>")),
        lambda symbols: "".join(symbols).replace("</w>", " ").strip(),
        goes_on=lambda before, symbol: not before.endswith("</w>"),
    ),
    "numbers": Subwords(_share_of_numbers, bpe=("gpt2", "hf_byte_bpe"), sign="numbers"),
    "opennmt": Subwords(
        _share_of(lambda symbol: symbol.startswith("\uffed") or symbol.endswith("\uffed")),
        sign="subwords with OpenNMT's joiner \uffed",
    ),
    "none": Subwords(lambda symbols: 0.0, " ".join),
}
JOINABLE = tuple(name for name, kind in SUBWORDS.items() if kind.join is not None)
SUBWORD_CHOICES = ("auto", *(name for name, kind in SUBWORDS.items() if kind.join is not None or kind.bpe))


def decode_byte_bpe(text: str) -> str:
    """Return what fairseq's ``--bpe byte_bpe`` and ``--bpe bytes`` make of *text*; other characters stay."""
    parts = _OTHERS.split(text)
    return "".join(part if i % 2 else str(ByteBPE.decode(part)) for i, part in enumerate(parts)).strip()


def joins_words(language: str) -> bool:
    """Return whether a *language* has no spaces at all; Thai, for example, has some between clauses."""
    tokenizer = bleu_tokenizer(language)
    return tokenizer == "zh" or (tokenizer is not None and language_code(language) == "ja")


def bleu_tokenizer(language: str) -> Optional[str]:
    """Return sacreBLEU's tokeniser for a *language* that is written without spaces, and None for other languages."""
    is_latin = "latn" in re.split("[-_]", language.lower())  # in which all languages have spaces
    return None if is_latin else _TOKENIZERS.get(language_code(language))


def language_code(language: str) -> str:
    """Return the usual code of a *language*: ``fr`` for ``fr_CA``, ``FR`` and ``fra_Latn``, ``fa`` for ``pes_Arab``."""
    try:
        code = Language.get(language).prefer_macrolanguage().language or language
    except LanguageTagError:  # of a name that is no code, such as source
        return language
    return _NO_CODES.get(language, _NO_CODES.get(code, code))


def language_name(language: str) -> str:
    """Return the English name of a *language* that has a code of two letters: ``French`` for ``fr_CA``; or itself."""
    code = language_code(language)
    return Language.get(code).language_name() if len(code) == 2 and tag_is_valid(code) else language
