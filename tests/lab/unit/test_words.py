"""Subwords to words, the attention between them, and what is said of attention whose largest weight means nothing."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from helpers import assert_close

from bert_fused_lab.evidence.attention import TOO_EVEN, Entropy, entropy, evenness
from bert_fused_lab.evidence.collection import _rare
from bert_fused_lab.evidence.words import (
    PIECES,
    count_training_words,
    merge,
    merge_attention,
    piece_marks,
    word_marks,
    words_of,
)
from bert_fused_lab.report.comparison import by_length, by_rare_words


@pytest.mark.parametrize(
    ("marks", "symbols", "texts"),
    [
        ("subword_nmt", "the hou@@ s@@ e runs </s>", ["the", "house", "runs", "</s>"]),
        ("subword_nmt", "cut@@ </s>", ["cut", "</s>"]),
        ("subword_nmt", "a@@ <unk> b", ["a", "<unk>", "b"]),
        ("sentencepiece", "▁the ▁hou se ▁ runs </s>", ["the", "house", "runs", "</s>"]),
        ("sentencepiece", "se ▁the", ["se", "the"]),
        (PIECES, "▁我 喜欢 猫 ▁ B ERT <unk> </s>", ["我", "喜欢", "猫", "B", "ERT", "<unk>", "</s>"]),
        ("word_piece", "[CLS] the hou ##s ##e [SEP]", ["[CLS]", "the", "house", "[SEP]"]),
        ("byte_level", "<s> the ĠhÃ¤ us </s>", ["<s>", "the", "häus", "</s>"]),
        ("end_of_word", "the</w> hou se</w> </s>", ["the", "house", "</s>"]),
        ("byte_bpe", "▁the ▁hÃ ¤us </s>", ["the", "häus", "</s>"]),
        ("numbers", "12 3 </s>", ["12", "3", "</s>"]),
        ("none", "play@@ ▁a ##b", ["play@@", "▁a", "##b"]),
    ],
)
def test_merge(marks, symbols, texts):
    special = {"</s>", "<s>", "<unk>", "[CLS]", "[SEP]"}
    words = merge(symbols.split(), marks, special)
    assert words.texts == texts
    assert [i for word in words.positions for i in word] == list(range(len(symbols.split())))


def test_marks_of_word_pieces():
    cases = {"[CLS] hou ##se": "word_piece", "▁hou se": "sentencepiece", "the Ġhou se": "byte_level", "a b": "none"}
    cases.update({"<s> ngôi@@ _nhà": "subword_nmt", "<s> ma ison</w> </s>": "end_of_word"})  # PhoBERT's, XLM's
    assert {pieces: piece_marks(pieces.split(), "subword_nmt") for pieces in cases} == cases
    assert [piece_marks(pieces.split(), "none") for pieces in cases] == ["none"] * 6
    of_pieces = {pieces: piece_marks(pieces.split(), PIECES) for pieces in cases}
    assert of_pieces == {**cases, "▁hou se": PIECES}


def test_pieces_are_words_where_there_are_no_spaces():
    assert [word_marks("sentencepiece", language) for language in ("zh_CN", "tha_Thai", "ja")] == [PIECES] * 3
    assert [word_marks("sentencepiece", language) for language in ("de", "ko", "")] == ["sentencepiece"] * 3
    assert word_marks("subword_nmt", "zh") == "subword_nmt"  # of segmented text


def test_attention_is_the_mean_over_the_target_and_the_largest_over_the_source():
    rows, columns = merge("a b@@ c".split(), "subword_nmt"), merge("x@@ y z u".split(), "subword_nmt")
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.4, 0.2, 0.0], [0.0, 0.2, 0.2, 0.6]])
    merged = merge_attention(weights, rows, columns)
    assert_close(merged, torch.tensor([[0.2, 0.3, 0.4], [0.3, 0.2, 0.3]]))


def test_the_layers_that_are_too_even_are_named():
    layers = [Entropy(4.0, 0.99), None, Entropy(2.0, 0.5), Entropy(3.9, 0.96)]
    assert evenness("source", layers) == (
        "The attention to the source in decoder layers 1, 4 is so even that its maps and alignments mean nothing: its "
        "entropy is 96% of the largest possible, and 95% or more says that all positions get nearly the same."
    )
    assert evenness("BERT", layers[:1]).startswith("The attention to BERT is so even that its maps")
    assert evenness("source", layers[1:3]) is None
    assert evenness("source", []) is None


@pytest.mark.parametrize(("largest", "even"), [(1 / 20, True), (0.15, True), (0.3, False), (0.9, False)])
def test_one_position_of_twenty_that_stands_out(largest, even):
    weights = torch.full((20,), (1 - largest) / 19)
    weights[7] = largest
    share = float(entropy(weights) / torch.tensor(20.0).log2())
    assert (share >= TOO_EVEN) is even


# --- groups of sentences by length and by rare words


def test_groups_of_lengths():
    groups = by_length([1, 10, 11, 30, 31, 400, 2])
    expected = [("1-10", [0, 1, 6]), ("11-15", [2]), ("26-30", [3]), ("over 30", [4, 5])]
    assert list(groups.items()) == expected


def test_rare_words_are_words_and_not_subwords(dictionary):
    """Both subwords of house are frequent, the word is not."""
    line = dictionary.encode_line("the hou@@ se sees play@@ se", add_if_not_exist=False).tolist()
    words = words_of(dictionary, line, "subword_nmt")
    assert [len(word) for word in words] == [1, 2, 1, 2]
    the, house, sees, _ = words
    seen = Counter({the: 100, house: 6, sees: 5})
    sentences = [words, [the, house], [], [sees] * 7, [sees] * 3]
    groups = by_rare_words([_rare(sentence, seen) for sentence in sentences])
    assert list(groups.items()) == [("none", [1, 2]), ("2", [0]), ("3 or more", [3, 4])]


def test_a_word_that_the_dictionary_does_not_know_is_rare(dictionary, monkeypatch):
    """The symbol of unknown words is frequent in the training data, where it stands for many words."""
    line = dictionary.encode_line("the unheard-of hou@@ se", add_if_not_exist=False)
    assert dictionary.unk() in line
    sizes = {"train": 60, "train1": 40}
    module = "bert_fused_lab.evidence.words"
    monkeypatch.setattr(f"{module}.source_side", lambda _, split, task: [line] * sizes.get(split, 0) or None)
    task = SimpleNamespace(cfg=SimpleNamespace(source_lang="en", target_lang="de"), source_dictionary=dictionary)
    words = words_of(dictionary, line.tolist(), "subword_nmt")
    seen = count_training_words(task, "data", "subword_nmt", [words])
    assert [seen[word] for word in words] == [100, 0, 100]
    assert by_rare_words([_rare(words, seen)]) == {"1": [0]}
