"""Texts as fairseq-generate writes them, and speeds."""

from functools import partial

import torch
from helpers import dictionary_of, encode, task_of

from bert_fused_lab.evidence.files import UNKNOWN
from bert_fused_lab.evidence.translating import Texts, Translations
from bert_fused_lab.evidence.words import PIECES

LINE = "the old man sees a play@@ hou@@ se ."


def test_subwords_are_joined_and_words_detokenised_on_request(dictionary):
    tokens, texts = encode(dictionary, LINE), partial(Texts, task_of(dictionary))
    assert texts("none", "none").source(tokens) == LINE
    assert texts("auto", "none").source(tokens) == "the old man sees a playhouse ."
    assert texts("auto", "none").target(tokens) == "the old man sees a playhouse ."
    assert texts("auto", "moses").target(tokens) == "the old man sees a playhouse."
    assert texts("auto", "moses").source(tokens) == "the old man sees a playhouse ."  # BLEU does not read it


def test_subwords_that_fairseq_does_not_join_are_joined_too():
    pieces = dictionary_of("the", "hou", "##se")
    task = task_of(pieces)
    tokens = encode(pieces, "the hou ##se unseen")
    assert Texts(task, "auto", "none").target(tokens) == "the house <unk>"
    assert Texts(task, "auto", "none").target(tokens, UNKNOWN) == "the house ⍰"
    assert Texts(task, "auto", "none").remarks == []


def test_tags_at_the_ends_of_a_sentence_are_left_out_and_elsewhere_they_are_text():
    words = dictionary_of("<2de>", "see", "<url>", "now", "de_DE")
    texts = Texts(task_of(words), "auto", "none")
    assert texts.target(encode(words, "<2de> see <url> now de_DE")) == "see <url> now"
    assert texts.target(encode(words, "<2de>")) == ""
    assert texts.words_of_source(encode(words, "<2de> see <url> now")) == [
        (words.index(word),) for word in ("see", "<url>", "now")
    ]


def test_byte_pieces_do_not_make_text_cased():
    lowered, cased = dictionary_of("▁the", "<0xC3>"), dictionary_of("▁the", "<0xC3>", "▁Old")
    assert Texts(task_of(lowered), "auto", "none").lower_cased
    assert not Texts(task_of(cased), "auto", "none").lower_cased


def test_subwords_that_cannot_be_joined_are_scored_as_they_are_and_the_page_says_so():
    pieces = dictionary_of("the", "￭x")
    texts = Texts(task_of(pieces), "auto", "none")
    assert texts.target(encode(pieces, "the ￭x")) == "the ￭x"
    assert not texts.joins_target
    assert [remark.split(", ")[0] for remark in texts.remarks] == [
        f"The {side} side of the data has subwords with OpenNMT's joiner ￭" for side in ("en", "de")
    ]


def test_speeds_count_the_end_of_sentence():
    found = Translations({0: torch.tensor([5, 6, 2]), 1: torch.tensor([2])}, seconds=2.0)
    assert found.speed() == {"sentences_per_second": 1.0, "tokens_per_second": 2.0}


def test_words_of_languages_without_spaces_are_their_pieces():
    pieces = dictionary_of("▁我", "喜欢", "▁the", "▁cat")
    task = task_of(pieces)
    task.cfg.source_lang = "zh"
    texts = Texts(task, "auto", "none")
    assert (texts.source_words, texts.target_words) == (PIECES, "sentencepiece")
    assert texts.source(encode(pieces, "▁我 喜欢")) == "我喜欢"
    [remark] = texts.remarks
    assert remark.startswith("zh is written without spaces between words, so in tables and in maps of attention each")
    assert [len(word) for word in texts.words_of_source(encode(pieces, "▁我 喜欢"))] == [1, 1]
