"""Words from subwords: ``hou@@ se``, ``▁hou se``, ``hou ##se``, ``Ġhou se``, ``hou se</w>``, and bytes."""

import itertools
import re
from collections import Counter
from typing import Any, Container, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.utils import split_paths
from torch import Tensor

from bert_fused_plugin.data.data_bin import source_side
from bert_fused_plugin.data.subwords import SUBWORDS, bleu_tokenizer
from bert_fused_plugin.progress import Progress

Word = Tuple[int, ...]  # the ids of its subwords

PIECES = "pieces"  # marks of sentencepiece in a language without spaces, where each piece is a word


class Words(NamedTuple):
    """The words of one sentence, and the positions of the symbols of each."""

    texts: List[str]
    positions: List[List[int]]


def merge(symbols: Sequence[str], marks: str, special: Container[str] = ()) -> Words:
    """Return the words that *symbols* make up; for the arguments see `word_positions`."""
    positions = word_positions(symbols, marks, special)
    join = SUBWORDS["sentencepiece" if marks == PIECES else marks].join
    texts = []
    for word in positions:
        first = symbols[word[0]]
        joined = first if join is None or first in special else join([symbols[i] for i in word])
        texts.append(joined or first)
    return Words(texts, positions)


def merged_words(dictionary: Any, tokens: Tensor, marks: str) -> Words:
    """Return the words of a sentence from its ids, without padding."""
    symbols = [dictionary[token] for token in tokens.tolist() if token != dictionary.pad()]
    return merge(symbols, marks, {dictionary[dictionary.eos()], dictionary[dictionary.unk()]})


def word_positions(symbols: Sequence[str], marks: str, special: Container[str] = ()) -> List[List[int]]:
    """Return the positions of the symbols of each word.

    *marks* are a kind of subwords, of the table in data/subwords.py, or `PIECES`; with a kind that no rule joins, each
    symbol is a word.  *special* symbols are words by themselves, such as ``</s>``.
    """
    goes_on = SUBWORDS[marks].goes_on if marks != PIECES else lambda before, symbol: before == "\u2581"
    positions: List[List[int]] = []
    for i, symbol in enumerate(symbols):
        alone = i == 0 or symbol in special or symbols[i - 1] in special
        if alone or not goes_on(symbols[i - 1], symbol):
            positions.append([])
        positions[-1].append(i)
    return positions


def word_marks(subwords: str, language: str) -> str:
    """Return the marks by which symbols of *language* become words: `PIECES` where *subwords* mark spaces in vain."""
    return PIECES if subwords == "sentencepiece" and bleu_tokenizer(language) is not None else subwords


def piece_marks(pieces: Sequence[str], of_source: str) -> str:
    """Return the marks by which a tokenizer's *pieces* of a sentence become words: those that they carry.

    If the marks *of_source* are ``none``, pieces are not merged either, and if they are `PIECES`, sentencepieces of the
    tokenizer are words, too.
    """
    kinds = ("word_piece", "sentencepiece", "byte_level", "subword_nmt", "end_of_word") if of_source != "none" else ()
    marks = next((name for name in kinds if SUBWORDS[name].share(pieces)), "none")
    return PIECES if (marks, of_source) == ("sentencepiece", PIECES) else marks


def is_lower_cased(dictionary: Any) -> bool:
    """Return whether no symbol of text has a capital; the names of bytes, such as ``<0xC3>``, are no text."""
    text = re.sub("<0x[0-9A-F]{2}>", "", " ".join(dictionary.symbols[dictionary.nspecial :]))
    return text == text.lower()


def merge_attention(weights: Tensor, rows: Words, columns: Words) -> Tensor:
    """Return the attention between words: the mean over the symbols of a target word, the largest of a source word's.

    *weights*, (T, S), are between symbols.  The source word with the largest weight is the one whose symbol gets most
    attention, as in alignments of subwords, where words are aligned if symbols of them are.  Sums would give most
    weight to the words of most symbols where attention is even, and means would give little to a long word of which
    one symbol is looked at.  The weights of a target word need not add up to 1.
    """
    means = torch.stack([weights[word].mean(dim=0) for word in rows.positions])
    return torch.stack([means[:, word].amax(dim=1) for word in columns.positions], dim=1)


def words_of(dictionary: Any, tokens: Sequence[int], subwords: str) -> List[Word]:
    """Return the words of a source sentence, each as the ids of its subwords, without the end of sentence."""
    kept = [token for token in tokens if token not in (dictionary.pad(), dictionary.eos())]
    words = word_positions([dictionary[token] for token in kept], subwords, {dictionary[dictionary.unk()]})
    return [tuple(kept[i] for i in word) for word in words]


def count_training_words(
    task: Any, data: str, subwords: str, wanted: Sequence[Sequence[Word]]
) -> "Optional[Counter[Word]]":
    """Return how often each of the *wanted* words is in the training source; None if *data* has no training set.

    The dictionary counts subwords, and a word that was never seen may consist of frequent subwords.  Words that the
    dictionary does not know are not counted: they all have one symbol, which says nothing about any of them.
    """
    datasets: List[Any] = []
    for path in split_paths(data):
        names = (f"train{number or ''}" for number in itertools.count())  # as fairseq combines them
        sources = (source_side(path, name, task) for name in names)
        datasets += itertools.takewhile(lambda dataset: dataset is not None, sources)
    if not datasets:
        return None
    unk = task.source_dictionary.unk()
    known = {word for words in wanted for word in words if unk not in word}
    seen: Counter[Word] = Counter()
    sentences = (dataset[i].tolist() for dataset in datasets for i in range(len(dataset)))
    total = sum(map(len, datasets))
    with Progress("words of the training data", total, "sentences") as progress:
        for sentence in sentences:
            seen.update(word for word in words_of(task.source_dictionary, sentence, subwords) if word in known)
            progress.update(1)
    return seen
