"""The text for the measurements of benchmark.py: sentence pairs, their joined dictionary, and batches."""

import argparse
import itertools
import random
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.data.data_utils import numpy_seed
from torch import Tensor

from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder

Batch = Dict[str, Any]
Pairs = List[Tuple[str, str]]

MAX_POSITIONS = 1024  # fairseq's default


class Corpus:
    """The sentence pairs of some splits, tokenised and in subwords, and the joined dictionary of the training set."""

    def __init__(self, options: argparse.Namespace, splits: Sequence[str]) -> None:
        self.options = options
        self.pairs = {split: self._read(split) for split in splits}
        self.dictionary = Dictionary()
        for line in itertools.chain.from_iterable(self.pairs["train"]):
            for symbol in line.split():
                self.dictionary.add_symbol(symbol)
        self.dictionary.finalize(padding_factor=8)  # as fairseq-preprocess does

    def write_dictionaries(self, data_bin: str) -> None:
        """Write to *data_bin* what fairseq's tasks read at set-up."""
        for lang in (self.options.source_lang, self.options.target_lang):
            self.dictionary.save(str(Path(data_bin) / f"dict.{lang}.txt"))

    def choose(self, split: str, count: int) -> Pairs:
        """Return *count* random pairs of *split* with different sources; the seed decides which."""
        unique = list(dict(reversed(self.pairs[split])).items())
        return random.Random(self.options.seed).sample(unique, count)

    def dataset(self, pairs: Pairs, encoder: Optional[BertFusedEncoder], shuffle: bool = False) -> Any:
        """Return fairseq's data set of *pairs*, with BERT's input if there is an *encoder*."""
        sides = [[self._encode(line) for line in side] for side in zip(*pairs)]
        (source, source_sizes), (target, target_sizes) = [(side, [len(row) for row in side]) for side in sides]
        dataset = LanguagePairDataset(
            source, source_sizes, self.dictionary, target, target_sizes, self.dictionary, shuffle=shuffle
        )
        return dataset if encoder is None else BertPairDataset(dataset, encoder.source.bridge)

    def training_batches(self, encoder: Optional[BertFusedEncoder]) -> List[Batch]:
        """Return ``--batches`` random batches of an epoch, of ``--max-tokens``; the seed decides which."""
        options = self.options
        dataset = self.dataset(self.pairs["train"], encoder, shuffle=True)
        with numpy_seed(options.seed):
            indices = dataset.ordered_indices()
        batches = dataset.batch_by_size(indices, max_tokens=options.max_tokens, required_batch_size_multiple=8)
        chosen = random.Random(options.seed).sample(range(len(batches)), options.batches)
        result = [dataset.collater([dataset[i] for i in batches[number]]) for number in chosen]
        return result if encoder is None else add_states(result, encoder)

    def test_batches(self, encoder: Optional[BertFusedEncoder], batch_size: int) -> List[Batch]:
        """Return ``--sentences`` test sentences in batches."""
        pairs = self.choose("test", self.options.sentences)
        dataset = self.dataset(pairs, encoder)
        groups = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=batch_size)
        result = [dataset.collater([dataset[i] for i in group]) for group in groups]
        return result if encoder is None else add_states(result, encoder)

    def _read(self, split: str) -> Pairs:
        langs = (self.options.source_lang, self.options.target_lang)
        paths = [Path(self.options.data) / f"{split}.{lang}" for lang in langs]
        sides = [path.read_text(encoding="utf-8").removesuffix("\n").split("\n") for path in paths]
        limit = min(self.options.max_tokens, MAX_POSITIONS)
        return [pair for pair in zip(*sides) if all(len(line.split()) < limit for line in pair)]

    def _encode(self, line: str) -> Tensor:
        return self.dictionary.encode_line(line, add_if_not_exist=False).long()


def add_states(batches: List[Batch], encoder: BertFusedEncoder) -> List[Batch]:
    """Add BERT's states to *batches*, as ``--bert-cache`` does: in half precision, with zeros at padding."""
    device = next(encoder.source.bert.model.parameters()).device
    for batch in batches:
        bert_tokens = batch["net_input"]["bert_tokens"]
        states = encoder.source.states(bert_tokens.to(device)).cpu().half()
        batch["net_input"]["bert_out"] = states.masked_fill(bert_tokens.eq(BERT_PAD).unsqueeze(-1), 0)
    return batches
