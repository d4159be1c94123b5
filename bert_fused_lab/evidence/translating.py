"""Translates a test set as fairseq-generate does, and measures the time."""

import os
import platform
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
import transformers
from fairseq import utils
from fairseq.dataclass.configs import GenerationConfig
from sacremoses import MosesDetokenizer
from torch import Tensor

from bert_fused_lab.evidence.runs import Run, on_device
from bert_fused_lab.evidence.words import PIECES, Word, is_lower_cased, word_marks, words_of
from bert_fused_plugin.data.dictionary_bridge import DETOKENIZERS, detect_detok
from bert_fused_plugin.data.subwords import SUBWORDS, detect_subword
from bert_fused_plugin.data.tags import language_tags
from bert_fused_plugin.progress import Progress


@dataclass(frozen=True)
class Decoding:
    """The settings of the search, under the names and with the defaults of fairseq-generate; batches are smaller."""

    beam: int = 5
    lenpen: float = 1.0
    max_len_a: float = 0.0
    max_len_b: int = 200
    max_tokens: int = 4096
    prefix_size: int = 0


@dataclass
class Translations:
    """The best hypothesis of each sentence, (T,), by number, and the time that the search took."""

    tokens: Dict[int, Tensor] = field(default_factory=dict)
    seconds: float = 0.0

    def speed(self) -> Dict[str, float]:
        """Return sentences and tokens (with end of sentence) per second."""
        sentences, tokens = len(self.tokens), sum(len(row) for row in self.tokens.values())
        return {"sentences_per_second": sentences / self.seconds, "tokens_per_second": tokens / self.seconds}


def batches(run: Run, subset: str, max_tokens: int) -> Iterator[Dict[str, Any]]:
    """Yield the batches of *subset* on the device of *run*."""
    longest_source, _ = utils.resolve_max_positions(run.task.max_positions(), run.model.max_positions())
    iterator = run.task.get_batch_iterator(
        dataset=run.task.dataset(subset),
        max_tokens=max_tokens,
        max_positions=(longest_source, sys.maxsize),  # no model reads the references
        disable_iterator_cache=True,
    ).next_epoch_itr(shuffle=False)
    for sample in iterator:
        yield on_device(sample, run.model)


def translate(run: Run, subset: str, how: Decoding, title: str) -> Translations:
    """Return the translations of *subset*; *title* is the text about the progress."""
    search, result = searcher(run, how), Translations()
    # the first batches have the shortest sentences
    with Progress(title, int(run.task.dataset(subset).src.sizes.sum()), "source tokens") as progress:
        for sample in batches(run, subset, how.max_tokens):
            start = time.perf_counter()
            hypotheses = search(sample)
            result.seconds += time.perf_counter() - start
            result.tokens.update(zip(sample["id"].tolist(), hypotheses))
            progress.update(int(sample["net_input"]["src_lengths"].sum()))
    return result


def searcher(run: Run, how: Decoding) -> Callable[[Dict[str, Any]], List[Tensor]]:
    """Return the function from a batch to the best hypothesis of each sentence, (T,), on the CPU."""
    options = GenerationConfig(beam=how.beam, lenpen=how.lenpen, max_len_a=how.max_len_a, max_len_b=how.max_len_b)
    generator = run.task.build_generator([run.model], options)

    def search(batch: Dict[str, Any]) -> List[Tensor]:
        prefix = batch["target"][:, : how.prefix_size] if how.prefix_size else None
        return [best["tokens"].cpu() for best, *_ in run.task.inference_step(generator, [run.model], batch, prefix)]

    return search


class Texts:
    """Makes texts of ids as fairseq-generate does: *subwords* are joined, and the target is detokenised by *detok*.

    The *subwords* are a kind of the table in data/subwords.py; ``auto`` joins those that the dictionary has.  Tags of
    languages, at the ends of a sentence, are left out.
    """

    def __init__(self, task: Any, subwords: str, detok: str) -> None:
        self.dictionaries = task.source_dictionary, task.target_dictionary
        self._tags = [
            {dictionary.bos(), dictionary.eos(), *map(dictionary.index, language_tags(dictionary))}
            for dictionary in self.dictionaries
        ]
        languages = task.cfg.source_lang, task.cfg.target_lang
        kinds = [detect_subword(dictionary) if subwords == "auto" else subwords for dictionary in self.dictionaries]
        marks = [word_marks(kind, language) for kind, language in zip(kinds, languages)]
        self._joins = [SUBWORDS[kind].join for kind in kinds]
        self.source_words, self.target_words = marks  # by which symbols become words, as for `merge`
        self.remarks = [  # what the reader of a report must know about these words
            f"{language} is written without spaces between words, so in tables and in maps of attention each of its "
            "subwords counts as a word."
            for language, mark in zip(languages, marks)
            if mark == PIECES
        ] + [
            f"The {language} side of the data has {SUBWORDS[kind].sign}, which do not tell the text. Its scores, "
            "tables and maps count subwords instead of words."
            for language, kind in zip(languages, kinds)
            if SUBWORDS[kind].join is None
        ]
        self.joins_target = self._joins[1] is not None
        self.lower_cased = is_lower_cased(task.target_dictionary)
        self.detokenised, self._detokenize = map(DETOKENIZERS[detok], languages)  # of source and target
        self.escaped = "moses" in map(detect_detok, self.dictionaries)
        self.shown: Callable[[str], str] = MosesDetokenizer().unescape_xml if self.escaped else str  # as people write

    def source(self, tokens: Tensor) -> str:
        """Return the text of a source sentence, which `detokenised` makes plain text of."""
        return self._joined(0, tokens)

    def words_of_source(self, tokens: Tensor) -> List[Word]:
        """Return the words of a source sentence, each as the ids of its subwords."""
        return words_of(self.dictionaries[0], self._inner(0, tokens), self.source_words)

    def target(self, tokens: Tensor, unknown: Optional[str] = None) -> str:
        """Return the text of a translation, or of a reference, where *unknown* stands for each unknown word."""
        return self._detokenize(self._joined(1, tokens, unknown))

    def _joined(self, side: int, tokens: Tensor, unknown: Optional[str] = None) -> str:
        join = self._joins[side]
        symbols = str(self.dictionaries[side].string(self._inner(side, tokens), unk_string=unknown))
        return symbols if join is None else join(symbols.split(" "))

    def _inner(self, side: int, tokens: Tensor) -> List[int]:
        ids: List[int] = tokens.tolist()
        for end in (0, -1):  # elsewhere, <url> for example is text
            while ids and ids[end] in self._tags[side]:
                del ids[end]
        return ids


def hardware(device: str) -> Dict[str, Any]:
    """Return the facts about this machine and its software that the speed depends on."""
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


def _processor() -> str:
    with suppress(OSError):  # only Linux has this file
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if name := re.search(r"^model name\s*: (.*)", cpuinfo, re.MULTILINE):
            return name[1]
    return platform.processor() or platform.machine()
