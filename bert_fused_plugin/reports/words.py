"""Words from subwords: ``hou@@ se``, ``▁hou se``, ``hou ##se``, ``Ġhou se``, ``hou se</w>``, and bytes."""

from typing import Container, List, NamedTuple, Sequence

import torch
from tokenizers import decoders
from torch import Tensor

from bert_fused_plugin.data.subwords import decode_byte_bpe
from bert_fused_plugin.reports.unspaced import bleu_tokenizer

PIECES = "pieces"  # marks of sentencepiece in a language without spaces, where each piece is a word


class Words(NamedTuple):
    """The words of one sentence, and the positions of the symbols of each."""

    texts: List[str]
    positions: List[List[int]]


def merge(symbols: Sequence[str], marks: str, special: Container[str] = ()) -> Words:
    """Return the words that *symbols* make up.

    Args:
        symbols: symbols of one sentence.
        marks: kind of subwords, of the table in data/subwords.py, or `PIECES`; with a kind that no rule joins, each
            symbol is a word.
        special: symbols that are words by themselves, such as ``</s>``.
    """
    positions: List[List[int]] = []
    for i, symbol in enumerate(symbols):
        alone = i == 0 or symbol in special or symbols[i - 1] in special
        if alone or not _continues(symbols[i - 1], symbol, marks):
            positions.append([])
        positions[-1].append(i)
    texts = [_text([symbols[i] for i in word], marks, special) for word in positions]
    return Words(texts, positions)


def word_marks(subwords: str, language: str) -> str:
    """Return the marks by which symbols of *language* become words: `PIECES` where *subwords* mark spaces in vain.

    Args:
        subwords: kind of subwords, of the table in data/subwords.py.
        language: the language, such as ``de`` or ``zh_CN``.
    """
    unspaced = bleu_tokenizer(language) is not None
    return PIECES if subwords == "sentencepiece" and unspaced else subwords


def piece_marks(pieces: Sequence[str], of_source: str) -> str:
    """Return the marks by which a tokenizer's *pieces* of a sentence become words: those that they carry.

    Args:
        pieces: the pieces.
        of_source: marks of the source.  If they are ``none``, pieces are not merged either, and if they are `PIECES`,
            sentencepieces of the tokenizer are words, too.
    """
    if of_source == "none":
        return "none"
    prefixes = {"word_piece": "##", "sentencepiece": "\u2581", "byte_level": "\u0120"}
    found = (name for name, mark in prefixes.items() if any(piece.startswith(mark) for piece in pieces))
    marks = next(found, "none")
    return PIECES if (marks, of_source) == ("sentencepiece", PIECES) else marks


def merge_attention(weights: Tensor, rows: Words, columns: Words) -> Tensor:
    """Return the attention between words: the mean over the symbols of a target word, the largest of a source word's.

    So the source word with the largest weight is the one whose symbol gets most attention, as in alignments of
    subwords, where words are aligned if symbols of them are.  Sums would give most weight to the words of most
    symbols where attention is even, and means would give little to a long word of which one symbol is looked at.
    The weights of a target word need not add up to 1.

    Args:
        weights: attention between symbols, (T, S).
        rows: the target words.
        columns: the source words.
    """
    means = torch.stack([weights[word].mean(dim=0) for word in rows.positions])
    return torch.stack([means[:, word].amax(dim=1) for word in columns.positions], dim=1)


def _continues(before: str, symbol: str, marks: str) -> bool:
    if marks == "subword_nmt":
        return before.endswith("@@")
    if marks == "word_piece":
        return symbol.startswith("##")
    if marks in ("sentencepiece", "byte_bpe"):
        return not symbol.startswith("\u2581")
    if marks == "end_of_word":
        return not before.endswith("</w>")
    if marks == PIECES:
        return before == "\u2581"
    return marks == "byte_level" and not symbol.startswith("\u0120")


def _text(symbols: Sequence[str], marks: str, special: Container[str]) -> str:
    if symbols[0] in special:
        return symbols[0]
    if marks == "subword_nmt":
        return "".join(symbol[:-2] if symbol.endswith("@@") else symbol for symbol in symbols)
    if marks == "word_piece":
        return "".join(symbol[2:] if symbol.startswith("##") else symbol for symbol in symbols)
    if marks == "byte_level":
        return str(decoders.ByteLevel().decode(list(symbols))).strip()
    if marks == "end_of_word":
        return "".join(symbols).replace("</w>", "")
    if marks == "byte_bpe":
        return decode_byte_bpe("".join(symbols)) or symbols[0]
    return "".join(symbols).replace("\u2581", "") or symbols[0] if marks in ("sentencepiece", PIECES) else symbols[0]
