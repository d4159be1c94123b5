"""Worker processes that are sent a pickle, as all are since Python 3.14, give the batches that this process makes."""

import numpy as np
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from helpers import encode, processes
from test_states_on_disk import CountingBert, D
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.cached_states import CachedStates
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge

LINES = ["a dog", "the old man sees a small dog", "dog", "", "play@@ hou@@ se , a dog"]
BATCHES = [[0, 1], [4], [3, 2]]


def assert_workers_agree(dataset, context):
    here = [dataset.collater([dataset[i] for i in batch]) for batch in BATCHES]
    loader = DataLoader(
        dataset, batch_sampler=BATCHES, collate_fn=dataset.collater, num_workers=2, multiprocessing_context=context
    )
    for batch, expected in zip(list(loader), here):
        assert batch["id"].tolist() == expected["id"].tolist()
        assert set(batch["net_input"]) == set(expected["net_input"])
        for name in set(batch["net_input"]) - {"prev_output_tokens"}:  # there are no targets
            assert torch.equal(batch["net_input"][name], expected["net_input"][name])


def cached(dataset, path):
    states = CachedStates(path, dataset.word_pieces, D, "fp32")
    states.add_missing(CountingBert().load, 0, 1)
    dataset.use_states(states)
    assert "bert_out" in dataset[0]  # and its file is mapped
    return dataset


def test_workers_read_a_data_set_with_and_without_the_cache(dictionary, bert_dir, tmp_path):
    rows = [encode(dictionary, line) for line in LINES]
    source = ListDataset(rows, np.array([len(row) for row in rows]))
    bridge = DictionaryBridge(dictionary, AutoTokenizer.from_pretrained(bert_dir), max_tokens=32)
    dataset = BertPairDataset(LanguagePairDataset(source, source.sizes, dictionary), bridge)
    assert_workers_agree(dataset, processes())
    assert_workers_agree(cached(dataset, tmp_path), processes())
