"""The text of --bert-text is that of the data: other sentences are refused, other ways to write them are not."""

import random

import pytest
from fairseq.data import Dictionary, ListDataset
from fairseq.data.encoders.byte_utils import byte_encode
from helpers import dictionary_of, encode
from transformers import AutoTokenizer

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.raw_text import check_raw_text
from bert_fused_plugin.errors import BertFusedError

ENGLISH = "window teacher garden children mountain river yellow quickly travels believes carpet silence".split()
GERMAN = "Fenster Lehrer Garten Kinder Berg Fluss gelb schnell reist glaubt Teppich Stille".split()
VIETNAMESE = "sinh viên đại học giảng dạy thành phố trường nghiên cứu xã hội".split()
CHINESE = list("学生在城市里读书他们认为这是一个很好的机会")


@pytest.fixture
def tokenizer(bert_dir):
    return AutoTokenizer.from_pretrained(bert_dir)


def lines_of(words, seed=1, count=60):
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=8)) for _ in range(count)]


def check(tokenizer, lines, texts, **flags):
    dictionary = dictionary_of(*{word for line in lines for word in line.split()})
    bridge = DictionaryBridge(dictionary, tokenizer, max_tokens=64, **flags)
    rows = ListDataset([encode(dictionary, line) for line in lines])
    check_raw_text(texts, rows, bridge, "--bert-text raw: train.en")


def test_other_sentences_are_refused(tokenizer):
    draw = random.Random(0)
    lines = lines_of(["".join(draw.choices("abcdefghijklmnop", k=6)) for _ in range(300)])
    said = r"--bert-text raw: train.en must hold .* only \d+% of the letters in 60 compared lines agree: line \d+ is"
    for texts in (lines[::-1], lines[1:] + lines[:1], lines_of(GERMAN), lines_of(CHINESE)):
        with pytest.raises(BertFusedError, match=said):
            check(tokenizer, lines, texts)
    check(tokenizer, lines[:10], lines[9::-1])  # too few to say so


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (ENGLISH, lambda line: f"{line.upper()}!"),
        (ENGLISH, lambda line: line.replace("teacher", "professor")),
        (VIETNAMESE, lambda line: line.replace(" ", "_")),
        (CHINESE, lambda line: line.replace(" ", "")),
        (["şehir", "öğrenci", "ışık", "çocuk"], lambda line: line.translate(str.maketrans("şöğç", "sogc")).title()),
        (["1", "2", "3"], lambda line: "a dog"),  # a toy of numbers
    ],
)
def test_other_ways_to_write_the_sentences_pass(tokenizer, words, written):
    lines = lines_of(words)
    check(tokenizer, lines, [written(line) for line in lines])


def test_text_of_bytes_and_unknown_words(tokenizer):
    lines = lines_of(["это", "наш", "город", "у", "моря"])
    dictionary = Dictionary()
    symbols = [byte_encode(line).split() for line in lines]
    for line in symbols[:30]:
        for symbol in line:
            dictionary.add_symbol(symbol)
    bridge = DictionaryBridge(dictionary, tokenizer, max_tokens=64)
    rows = ListDataset([encode(dictionary, " ".join(line)) for line in symbols])
    check_raw_text(lines, rows, bridge, "--bert-text raw: train.ru")
