import random

import pytest
from fairseq.data import Dictionary, ListDataset
from fairseq.data.encoders.byte_utils import byte_encode
from helpers import dictionary_of, encode

from bert_fused_plugin.data import raw_text
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.raw_text import check_raw_text, read_raw_text
from bert_fused_plugin.errors import BertFusedError


def test_only_a_line_feed_ends_a_sentence_and_a_byte_order_mark_is_no_text(tmp_path):
    text = "\ufeffun café \r\n\r\n a\u2028b\x0bc\rd\n\ufeff the dog"
    (tmp_path / "train.en").write_bytes(text.encode())
    expected = ["un café ", "", " a\u2028b\x0bc\rd", "\ufeff the dog"]
    assert list(read_raw_text(str(tmp_path), "train", "en", [(4, 1)])) == expected


@pytest.mark.parametrize("content", [None, b"a dog\n\xff\n"], ids=["missing", "Latin-1"])
def test_what_cannot_be_read_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "valid.de").write_bytes(content)
    message = r"--bert-text .*valid\.de cannot be read as UTF-8 text \(.*the raw source text of 'valid'"
    with pytest.raises(BertFusedError, match=message):
        read_raw_text(str(tmp_path), "valid", "de", [(2, 1)])


@pytest.mark.parametrize("size", [1, 3])
def test_another_number_of_lines_is_refused(tmp_path, size):
    (tmp_path / "test.en").write_text("a dog\nred\n")
    with pytest.raises(BertFusedError, match=rf"test\.en has 2 lines, but the binarised file has {size} sentences"):
        read_raw_text(str(tmp_path), "test", "en", [(size, 1)])


def test_each_binarised_file_has_its_text(tmp_path):
    for name, text in (("train", "a\nb\n"), ("train1", "c\n"), ("train2", "d\n")):
        (tmp_path / f"{name}.en").write_text(text)
    combined = list(read_raw_text(str(tmp_path), "train", "en", [(2, 2), (1, 1), (1, 1)]))
    assert combined == ["a", "b", "a", "b", "c", "d"]  # upsampled
    assert list(read_raw_text(str(tmp_path), "train", "en", [(2, 1)])) == ["a", "b"]  # the data have no others
    with pytest.raises(BertFusedError, match=r"train\.en has 2 lines, but the binarised file has 1 sentences"):
        read_raw_text(str(tmp_path), "train", "en", [(1, 1), (2, 1)])  # together, they are as many
    with pytest.raises(BertFusedError, match=r"train3\.en cannot be read as UTF-8 text"):
        read_raw_text(str(tmp_path), "train", "en", [(2, 1), (1, 1), (1, 1), (1, 1)])


def test_an_empty_file_has_no_lines_and_a_line_beyond_the_end_is_an_error(tmp_path):
    (tmp_path / "train.en").write_text("")
    text = read_raw_text(str(tmp_path), "train", "en", [(0, 1)])
    assert list(text) == []
    with pytest.raises(IndexError):
        text[0]


def test_lines_and_signs_may_lie_across_the_blocks_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_text, "_BLOCK", 3)
    lines = ["é€x", "", "a longer line", "𝔘"]
    (tmp_path / "train.en").write_text("\n".join(lines), encoding="utf-8")
    assert list(read_raw_text(str(tmp_path), "train", "en", [(4, 1)])) == lines
    (tmp_path / "train.en").write_bytes("é€".encode()[:-1])
    with pytest.raises(BertFusedError, match="cannot be read as UTF-8 text"):
        read_raw_text(str(tmp_path), "train", "en", [(1, 1)])


# --- the text is that of the data: other sentences are refused, other ways to write them are not


ENGLISH = "window teacher garden children mountain river yellow quickly travels believes carpet silence".split()
GERMAN = "Fenster Lehrer Garten Kinder Berg Fluss gelb schnell reist glaubt Teppich Stille".split()
VIETNAMESE = "sinh viên đại học giảng dạy thành phố trường nghiên cứu xã hội".split()
CHINESE = list("学生在城市里读书他们认为这是一个很好的机会")


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
