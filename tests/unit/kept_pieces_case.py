"""A small corpus in the files of fairseq-preprocess, whose word pieces are kept in parts of two sentences."""

import numpy as np
import torch
from fairseq.data import LanguagePairDataset, indexed_dataset
from helpers import encode
from transformers import AutoTokenizer

from bert_fused_plugin.data import kept_pieces
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge

LINES = ["a dog", "the old man sees a small dog", "dog", "", "play@@ hou@@ se , a dog", "a man", "red dog"]


def write_data(dictionary, prefix, lines=LINES):
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    for line in lines:
        builder.add_item(encode(dictionary, line))
    builder.finalize(f"{prefix}.idx")
    return str(prefix)


def maker(dictionary, bert_dir, tmp_path, monkeypatch, write=write_data):
    """Return a function that makes the data set of the corpus: make(folders=..., max_tokens=..., ...)."""
    monkeypatch.setattr(kept_pieces, "KEPT_FROM", 2)
    monkeypatch.setattr(kept_pieces, "_PART", 2)
    corpus = write(dictionary, tmp_path / "src")

    def make(source=None, folders=(tmp_path / "kept",), texts=None, starts=(), tokenizer=None, words=None, **options):
        source = indexed_dataset.MMapIndexedDataset(corpus) if source is None else source
        tokenizer = tokenizer or AutoTokenizer.from_pretrained(bert_dir)
        bridge = DictionaryBridge(words or dictionary, tokenizer, **{"max_tokens": 32, **options})
        pairs = LanguagePairDataset(source, source.sizes, dictionary)
        return BertPairDataset(pairs, bridge, texts, document_starts=set(starts), folders=folders, name="train.en")

    return make


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def assert_equal(dataset, expected):
    for name in ("pieces", "offsets", "sizes"):
        ours, theirs = (getattr(data.word_pieces, name) for data in (dataset, expected))
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    for name in ("num_truncated", "num_context_cut", "digest"):
        assert getattr(dataset.word_pieces, name) == getattr(expected.word_pieces, name)
    for i in range(len(expected)):
        assert torch.equal(dataset.bert_tokens(i), expected.bert_tokens(i))
