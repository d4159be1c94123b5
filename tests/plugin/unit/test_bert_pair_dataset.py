import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from helpers import encode, framed, framed_ids

from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset, InteractiveDataset
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD

SOURCES = ["a dog", "the old man sees a small dog", "dog", "", "play@@ hou@@ se , a dog"]
TARGETS = ["dog dog", "man", "a big old red house runs", "dog", "house"]


def pairs(dictionary, targets=TARGETS, **options):
    src, tgt = ([encode(dictionary, line) for line in side] for side in (SOURCES, targets))
    sizes = [np.array([len(row) for row in side]) for side in (src, tgt)]
    return LanguagePairDataset(
        ListDataset(src, sizes[0]), sizes[0], dictionary, ListDataset(tgt, sizes[1]), sizes[1], dictionary, **options
    )


@pytest.fixture
def dataset(dictionary, bridge):
    return BertPairDataset(pairs(dictionary), bridge)


def test_a_batch_has_the_word_pieces_that_the_encoder_would_derive(dataset, bridge):
    """The rows follow the order of the batch, which fairseq sorts by length."""
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [2]):
        batch = dataset.collater([dataset[i] for i in order])
        net_input = batch["net_input"]
        assert set(net_input) == {"src_tokens", "src_lengths", "prev_output_tokens", "bert_tokens"}
        assert torch.equal(net_input["bert_tokens"], bridge.bert_tokens(net_input["src_tokens"]))
        if len(order) > 1:
            assert batch["id"].tolist() != order
            assert (net_input["bert_tokens"][-1] == BERT_PAD).any()


def test_raw_texts_take_the_place_of_derived_ones(dictionary, bridge):
    texts = ["dog", "a big house .", "red", "a", "man"]
    dataset = BertPairDataset(pairs(dictionary), bridge, texts)
    for i, row in enumerate(framed(bridge, texts)):
        assert dataset[i]["bert_tokens"].tolist() == row


def test_lengths_count_word_pieces_too(dataset):
    stock = dataset.dataset
    pieces = [len(dataset[i]["bert_tokens"]) for i in range(5)]
    assert pieces == [4, 9, 3, 2, 7]
    expected = [max(stock.num_tokens(i), pieces[i]) for i in range(5)]
    assert expected != [stock.num_tokens(i) for i in range(5)]
    assert [dataset.num_tokens(i) for i in range(5)] == expected


def test_batches_respect_max_tokens_in_word_pieces(dictionary, bridge):
    """Three sources of at most 3 tokens would make a batch of 9, but BERT reads 4 word pieces for the longest."""
    dataset = BertPairDataset(pairs(dictionary, ["dog"] * 5), bridge)
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=9)
    assert sorted(int(i) for batch in batches for i in batch) == [0, 1, 2, 3, 4]
    for batch in batches:
        assert dataset.collater([dataset[int(i)] for i in batch])["net_input"]["bert_tokens"].numel() <= 9


def test_a_sentence_that_only_bert_finds_too_long_is_a_batch_by_itself(dataset):
    """The longest source has 8 tokens, its BERT input 9."""
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=8)
    assert sorted(int(i) for batch in batches for i in batch) == [0, 1, 2, 3, 4]
    assert [1] in [[int(i) for i in batch] for batch in batches]


def test_an_interactive_batch_hands_on_berts_input_as_constraints(dictionary, bridge):
    dataset = InteractiveDataset(pairs(dictionary), bridge)
    batch = dataset.collater([dataset[i] for i in (0, 1, 4)], pad_to_length={"source": 12, "target": 10})
    assert batch["net_input"]["src_tokens"].shape == (3, 12)  # fairseq's options are kept
    assert torch.equal(batch["constraints"], bridge.bert_tokens(batch["net_input"]["src_tokens"]))
    assert torch.equal(batch["constraints"], batch["net_input"]["bert_tokens"])
    assert dataset.collater([]) == {}


def test_batches_of_few_shapes_are_fairseqs_own(dictionary, bridge):
    """--num-batch-buckets pads the sources, which BERT does not see."""
    dataset = BertPairDataset(pairs(dictionary, num_buckets=2), bridge)
    limits = {"max_tokens": 24, "max_sentences": 2, "required_batch_size_multiple": 1}
    indices = dataset.ordered_indices()
    ours, stock = (d.batch_by_size(indices, **limits) for d in (dataset, dataset.dataset))
    assert [list(batch) for batch in ours] == [list(batch) for batch in stock]
    for i, tokens in enumerate(encode(dictionary, line) for line in SOURCES):
        assert [dataset[i]["bert_tokens"].tolist()] == framed_ids(bridge, [tokens.tolist()])
