"""The text for the measurements of benchmark.py: sentence pairs, their joined dictionary, and batches."""

import argparse
import itertools
import random
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq.data import Dictionary, LanguagePairDataset, indexed_dataset
from fairseq.data.data_utils import numpy_seed
from torch import Tensor

from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder

Batch = Dict[str, Any]
Pairs = List[Tuple[str, str]]

MAX_POSITIONS = 1024  # fairseq's default


class Corpus:
    """The sentence pairs of some splits, tokenised and in subwords, and the joined dictionary of the training set.

    Raises:
        BertFusedError: the two sides of a split do not fit, or a split is empty.
    """

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

    def write_split(self, data_bin: str, split: str, pairs: Pairs) -> None:
        """Write *pairs* to *data_bin* as fairseq-preprocess does."""
        langs = (self.options.source_lang, self.options.target_lang)
        for lang, side in zip(langs, zip(*pairs)):
            prefix = str(Path(data_bin) / f"{split}.{'-'.join(langs)}.{lang}")
            builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=len(self.dictionary))
            for line in side:
                builder.add_item(self._encode(line))
            builder.finalize(f"{prefix}.idx")

    def choose(self, split: str, count: int) -> Pairs:
        """Return *count* random pairs of *split* with different sources; the seed decides which."""
        unique = list(dict(reversed(self.pairs[split])).items())
        if count > len(unique):
            raise BertFusedError(
                f"--sentences {count}: {self.options.data} has {len(unique)} different {split} sentences; "
                f"ask for at most {len(unique)}"
            )
        return random.Random(self.options.seed).sample(unique, count)

    def dataset(self, pairs: Pairs, encoder: Optional[BertFusedEncoder], shuffle: bool = False) -> Any:
        """Return fairseq's data set of *pairs*, with BERT's input if there is an *encoder*."""
        sides = [[self._encode(line) for line in side] for side in zip(*pairs)]
        (source, source_sizes), (target, target_sizes) = [(side, [len(row) for row in side]) for side in sides]
        dataset = LanguagePairDataset(
            source, source_sizes, self.dictionary, target, target_sizes, self.dictionary, shuffle=shuffle
        )
        return dataset if encoder is None else BertPairDataset(dataset, encoder.bridge)

    def training_batches(self, encoder: Optional[BertFusedEncoder]) -> List[Batch]:
        """Return ``--batches`` random batches of an epoch, of ``--max-tokens``; the seed decides which."""
        options = self.options
        dataset = self.dataset(self.pairs["train"], encoder, shuffle=True)
        with numpy_seed(options.seed):
            indices = dataset.ordered_indices()
        batches = dataset.batch_by_size(
            indices, max_tokens=options.max_tokens, required_batch_size_multiple=8
        )  # fmt: skip
        if options.batches > len(batches):
            raise BertFusedError(
                f"--batches {options.batches}: the training set gives {len(batches)} batches of --max-tokens "
                f"{options.max_tokens}; ask for at most as many, or lower --max-tokens"
            )
        chosen = random.Random(options.seed).sample(range(len(batches)), options.batches)
        result = [dataset.collater([dataset[i] for i in batches[number]]) for number in chosen]
        return result if encoder is None else add_states(result, encoder)

    def test_batches(self, encoder: Optional[BertFusedEncoder], batch_size: int, length: int) -> List[Batch]:
        """Return ``--sentences`` test sentences in batches, each made *length* symbols long, unless that is 0."""
        pairs = self.choose("test", self.options.sentences)
        if length:
            words = [source.split() for source, _ in pairs]
            pairs = [
                (" ".join(itertools.islice(itertools.cycle([*words[i], *itertools.chain(*words)]), length)), target)
                for i, (_, target) in enumerate(pairs)
            ]
        dataset = self.dataset(pairs, encoder)
        groups = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=batch_size)
        result = [dataset.collater([dataset[i] for i in group]) for group in groups]
        return result if encoder is None else add_states(result, encoder)

    def _read(self, split: str) -> Pairs:
        sides = []
        for lang in (self.options.source_lang, self.options.target_lang):
            path = Path(self.options.data) / f"{split}.{lang}"
            try:
                sides.append(path.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
            except (OSError, UnicodeDecodeError) as error:
                raise BertFusedError(
                    f"--data {self.options.data}: {path} cannot be read as UTF-8 text ({error}); give one "
                    "sentence a line, tokenised and in subwords"
                ) from error
        if len(sides[0]) != len(sides[1]) or not any(sides[0]):
            raise BertFusedError(
                f"--data {self.options.data}: {split} has {len(sides[0])} source and {len(sides[1])} target lines; "
                "both sides need the same number, and some text"
            )
        limit = min(self.options.max_tokens, MAX_POSITIONS)
        pairs = [pair for pair in zip(*sides) if all(len(line.split()) < limit for line in pair)]
        if not pairs:
            raise BertFusedError(f"--max-tokens {self.options.max_tokens}: all {split} sentences are longer; raise it")
        return pairs

    def _encode(self, line: str) -> Tensor:
        return self.dictionary.encode_line(line, add_if_not_exist=False).long()


def add_states(batches: List[Batch], encoder: BertFusedEncoder) -> List[Batch]:
    """Add BERT's states to *batches*, as ``--bert-cache`` does: in half precision, with zeros at padding."""
    device = next(encoder.bert.model.parameters()).device
    for batch in batches:
        bert_tokens = batch["net_input"]["bert_tokens"]
        states = encoder.bert(bert_tokens.to(device))[0].cpu().half()
        batch["net_input"]["bert_out"] = states.masked_fill(bert_tokens.eq(BERT_PAD).unsqueeze(-1), 0)
    return batches
