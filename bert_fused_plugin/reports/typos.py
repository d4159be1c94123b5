"""Typing errors in the source: what do they cost, with BERT and without?

Words get errors and are split into subwords anew.  A character that the dictionary does not have becomes ``<unk>`` for
the NMT encoder, as in any text that is typed, but BERT reads it.
"""

import copy
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf
from torch import Tensor

from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.subwords import OF_ANY_KIND
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.exporting.subword_tool import FILES, check_tool
from bert_fused_plugin.reports.runs import Run
from bert_fused_plugin.reports.words import merge

Split = Callable[[str], List[str]]  # makes subwords of a word

_ROWS = ("qwertyuiop[]", "asdfghjkl;'", "zxcvbnm,./")  # of the keyboard
_BESIDE = {
    key: row[max(0, i - 1) : i] + row[i + 1 : i + 2] + "".join(other[i : i + 1] for other in others)
    for row, others in zip(_ROWS, (_ROWS[1:2], _ROWS[::2], _ROWS[1:2]))
    for i, key in enumerate(row)
}
_KINDS = ("swapped", "dropped", "doubled", "replaced")  # with the next letter; and by that of a key beside it


class Typed(NamedTuple):
    """The sentences of a test set with typing errors."""

    texts: List[str]
    sentences: List[List[Optional[str]]]  # their subwords; None is one that is unknown in the data itself
    letters: int  # of the words that may get errors
    errors: Dict[str, int]  # by kind


def splitter(kind: str, files: Mapping[str, Optional[Path]], task: Any, data: str) -> Split:
    """Return what splits words as the directory *data*, with a *kind* of `SUBWORDS`, is split.

    One of *files*, which are by the names of tools in fairseq, is given.

    Raises:
        BertFusedError: none is given, or it does not split the words so.
    """
    if kind == "none":
        return lambda word: [word]
    tool = next((tool for tool, file in files.items() if file is not None), None)
    if tool is None:
        raise BertFusedError(
            f"--typos must split words with errors as the data is split ({kind}), and no file for this is given; give "
            "--codes FILE (subword-nmt) or --sentencepiece-model FILE"
        )
    [setting], file = FILES[tool], Path(str(files[tool]))
    encoder = check_tool(OmegaConf.create({"_name": tool, setting: str(file)}), {setting: (file, "")}, task, data)
    return lambda word: str(encoder.encode(word)).split()


def with_errors(
    sentences: Sequence[Tensor], dictionary: Dictionary, marks: str, split: Split, rate: float, seed: int
) -> Typed:
    """Return *sentences* of ids, of subwords with *marks*, in which each letter has an error with probability *rate*.

    Unknown words, tags, and words with ``&``, which are of Moses (``&apos;``), stay as they are.
    """
    unk, end, random = dictionary[dictionary.unk()], dictionary.eos(), Random(seed)
    result = Typed([], [], 0, Counter())
    for number in range(len(sentences)):  # a data set of fairseq knows no end
        symbols, typed = [dictionary[token] for token in sentences[number].tolist() if token != end], []
        words, positions = merge(symbols, marks, {unk})
        for i, word in enumerate(words):
            parts = [symbols[position] for position in positions[i]]
            if not ("&" in word or OF_ANY_KIND.fullmatch(word)):
                words[i] = misspelt(word, rate, random, result.errors)
                parts = split(words[i]) if words[i] != word else parts
                result = result._replace(letters=result.letters + sum(map(str.isalpha, word)))
            typed += [None if part == unk else part for part in parts]
        result.texts.append(" ".join(words))
        result.sentences.append(typed)
    return result


def misspelt(word: str, rate: float, random: Random, errors: Dict[str, int]) -> str:
    """Return *word* with errors at the *rate* of its letters, which are counted in *errors*; some letter remains."""
    typed, i = "", 0
    while i < len(word):
        letter, after, i = word[i], word[i + 1 : i + 2], i + 1
        beside = _BESIDE.get(letter.lower(), "")
        able = (after.isalpha() and after != letter, bool(typed or after), True, bool(beside))
        if not letter.isalpha() or random.random() >= rate:
            typed += letter
            continue
        kind = random.choice([kind for kind, can in zip(_KINDS, able) if can])
        errors[kind] += 1
        if kind == "swapped":
            typed, i = typed + after + letter, i + 1
        elif kind != "dropped":
            typed += 2 * letter if kind == "doubled" else random.choice(beside)
    return typed


@contextmanager
def typed_sources(run: Run, subset: str, typed: Typed) -> Iterator[None]:
    """Give *run* the sentences of *typed* as the sources of *subset*."""
    task, old = run.task, run.task.dataset(subset)
    pairs = copy.copy(old.dataset if isinstance(old, BertPairDataset) else old)
    dictionary, rows = task.source_dictionary, []
    for symbols in typed.sentences:
        ids = [dictionary.unk() if symbol is None else dictionary.index(symbol) for symbol in symbols]
        rows.append(torch.tensor([*ids[: task.max_source - 1], dictionary.eos()]))
    pairs.src, pairs.src_sizes = rows, np.array([len(row) for row in rows])
    task.datasets[subset] = pairs
    try:
        if isinstance(old, BertPairDataset):
            tags = task.bridge.tags
            texts = [[*task.bridge.parts([s for s in symbols if s not in tags])] for symbols in typed.sentences]
            task.datasets[subset] = task.with_bert_input(task.bridge, subset, texts=texts)
        yield
    finally:
        task.datasets[subset] = old
