"""The word pieces of a corpus are made once: they are equal to those in memory, and new where anything differs."""

import os
import pickle
import time

import numpy as np
import pytest
import torch
from fairseq.data import AppendTokenDataset, ConcatDataset, LanguagePairDataset, ListDataset, indexed_dataset
from helpers import WORDS, encode, processes
from test_data_loader_workers import BATCHES, assert_workers_agree
from tokenizers import normalizers
from transformers import AutoTokenizer

from bert_fused_plugin.bert.hugging_face import load_tokenizer
from bert_fused_plugin.data import kept_pieces
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.raw_text import read_raw_text
from bert_fused_plugin.data.tokenizing import Sentences

LINES = ["a dog", "the old man sees a small dog", "dog", "", "play@@ hou@@ se , a dog", "a man", "red dog"]
TEXT = ["A dog.", "old", "the dog eats", "", "play house", "men?", "red"]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(kept_pieces, "KEPT_FROM", 2)
    monkeypatch.setattr(kept_pieces, "_PART", 2)


def write_data(dictionary, prefix, lines=LINES):
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    for line in lines:
        builder.add_item(encode(dictionary, line))
    builder.finalize(f"{prefix}.idx")
    return str(prefix)


@pytest.fixture
def corpus(dictionary, tmp_path):
    return write_data(dictionary, tmp_path / "src")


@pytest.fixture
def make(dictionary, bert_dir, corpus, tmp_path):
    """Make the data set of the corpus: make(folders=..., max_tokens=..., ...)."""

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
    for name in ("pieces", "offsets", "keys", "sizes"):
        ours, theirs = (getattr(data.word_pieces, name) for data in (dataset, expected))
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    for name in ("num_truncated", "num_context_cut"):
        assert getattr(dataset.word_pieces, name) == getattr(expected.word_pieces, name)
    for i in range(len(expected)):
        assert torch.equal(dataset.bert_tokens(i), expected.bert_tokens(i))


@pytest.mark.parametrize("raw", [False, True], ids=["derived", "raw text"])
@pytest.mark.parametrize("options", [{}, {"context": 2, "max_tokens": 7, "starts": [0, 5]}, {"max_tokens": 4}])
def test_kept_pieces_are_those_that_are_made_in_memory(make, tmp_path, options, raw, monkeypatch):
    (tmp_path / "train.en").write_text("\n".join(TEXT), encoding="utf-8")
    texts = read_raw_text(str(tmp_path), "train", "en", len(LINES)) if raw else None
    first, again = (make(texts=texts, **options) for _ in range(2))
    monkeypatch.setattr(kept_pieces, "_PART", 100)
    expected = make(texts=texts, folders=(), **options)
    assert type(again.word_pieces) is not type(expected.word_pieces)
    assert (expected.word_pieces.num_truncated > 0) or options.get("max_tokens") != 4
    assert (expected.word_pieces.num_context_cut > 0) == ("context" in options)
    for dataset in (first, again):
        assert_equal(dataset, expected)
    assert len(files(tmp_path / "kept")) == 1


def test_a_later_start_makes_nothing(make, monkeypatch, caplog, tmp_path):
    caplog.set_level("INFO")
    expected = make()
    assert any(
        message.startswith("the word pieces of 7 sentences are made, and kept in") for message in caplog.messages
    )
    caplog.clear()
    monkeypatch.setattr(DictionaryBridge, "word_pieces_of_tokens", None)
    assert_equal(make(), expected)
    assert caplog.messages == [
        f"the word pieces of train.en are read from {tmp_path}/kept/{files(tmp_path / 'kept')[0]}"
    ]


def lower(bert_dir, value):
    tokenizer = load_tokenizer(bert_dir)
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=value)
    return tokenizer


def with_token(bert_dir):
    tokenizer = load_tokenizer(bert_dir)
    tokenizer.add_tokens(["dog"])
    return tokenizer


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 6},
        {"context": 1},
        {"context": 1, "starts": [0, 1]},
        {"subword": "none"},
        {"detok": "moses"},
        {"lang": "de"},
        {"tags": ["red"]},
        {"tokenizer": lambda bert_dir: lower(bert_dir, False)},
        {"tokenizer": with_token},
    ],
    ids=str,
)
def test_other_settings_and_other_tokenizers_have_other_files(make, options, bert_dir, tmp_path):
    make()
    make(tokenizer=lower(bert_dir, True))  # which is the same
    assert len(files(tmp_path / "kept")) == 1
    if "tokenizer" in options:
        options = {"tokenizer": options["tokenizer"](bert_dir)}
    dataset = make(**options)
    assert len(files(tmp_path / "kept")) == 2
    assert_equal(dataset, make(folders=(), **options))


def test_another_dictionary_has_another_file(make, dictionary, tmp_path):
    """The ids are the same, and their text is not."""
    make()
    words = type(dictionary)()
    for word in reversed(WORDS):
        words.add_symbol(word)
    dataset = make(words=words)
    assert len(files(tmp_path / "kept")) == 2
    assert_equal(dataset, make(words=words, folders=()))


def test_other_data_of_the_same_size_and_time_has_another_file(make, dictionary, corpus, tmp_path):
    first = make()
    times = {end: os.stat(corpus + end) for end in (".bin", ".idx")}
    write_data(dictionary, corpus, [line.replace("dog", "man") for line in LINES])
    for end, stat in times.items():
        assert os.stat(corpus + end).st_size == stat.st_size
        os.utime(corpus + end, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    second = make()
    assert len(files(tmp_path / "kept")) == 2
    assert second.bert_tokens(0).tolist() != first.bert_tokens(0).tolist()
    assert_equal(second, make(folders=()))


def test_other_raw_text_has_another_file(make, tmp_path):
    for text in (TEXT, [*TEXT[:-1], "dog"], TEXT):
        (tmp_path / "train.en").write_text("\n".join(text) + "\n", encoding="utf-8")
        dataset = make(texts=read_raw_text(str(tmp_path), "train", "en", len(LINES)))
        assert dataset.bert_tokens(6).tolist() == make(texts=text, folders=()).bert_tokens(6).tolist()
    assert len(files(tmp_path / "kept")) == 2


def test_what_fairseq_combines_or_appends_counts(make, corpus, dictionary, tmp_path):
    def once():
        return indexed_dataset.MMapIndexedDataset(corpus)

    sources = [once(), ConcatDataset([once(), once()]), ConcatDataset([once(), once()], [2, 1])]
    sources += [AppendTokenDataset(once(), dictionary.index(word)) for word in ("dog", "man")]
    for number, source in enumerate(sources, start=1):
        for _ in range(2):
            dataset = make(source)
            assert len(files(tmp_path / "kept")) == number
            assert_equal(dataset, make(source, folders=()))


def test_data_that_is_in_no_file_and_small_data_are_not_kept(make, dictionary, tmp_path, monkeypatch):
    rows = [encode(dictionary, line) for line in LINES]
    make(ListDataset(rows, np.array([len(row) for row in rows])))
    monkeypatch.setattr(kept_pieces, "KEPT_FROM", len(LINES) + 1)
    make()
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("place", [10, 4100, 4096 + 8 * 8 + 3, -2, None], ids=str)
def test_a_damaged_file_is_made_anew_with_one_sentence(make, tmp_path, caplog, place):
    expected = make(folders=())
    make()
    [file] = (tmp_path / "kept").iterdir()
    data = bytearray(file.read_bytes())
    if place is None:
        del data[-4:]
    else:
        data[place] ^= 1
    file.write_bytes(data)
    dataset = make()
    assert_equal(dataset, expected)
    assert warnings(caplog) == [f"{file} is damaged: it is removed, and the word pieces are made anew"]
    caplog.clear()
    assert_equal(make(), expected)
    assert (files(tmp_path / "kept"), warnings(caplog)) == ([file.name], [])


def test_a_damaged_part_is_made_anew(make, tmp_path, monkeypatch):
    """As a power cut may leave it."""
    join, damaged = kept_pieces.join_parts, []

    def damage_once(file, unfinished, parts, sentences):
        if not damaged:
            damaged.append(parts[1].write_bytes(b""))
        join(file, unfinished, parts, sentences)

    monkeypatch.setattr(kept_pieces, "join_parts", damage_once)
    assert_equal(make(), make(folders=()))
    assert damaged
    assert len(files(tmp_path / "kept")) == 1


def test_the_first_folder_that_has_the_file_or_can_be_written_is_used(make, tmp_path, caplog):
    (tmp_path / "file").touch()
    unusable, first, second = tmp_path / "file" / "folder", tmp_path / "first", tmp_path / "second"
    make(folders=(unusable, second))
    assert_equal(make(folders=(first, second)), make(folders=()))
    assert len(files(second)) == 1
    assert not first.exists()
    assert not warnings(caplog)
    expected = make(folders=())
    assert_equal(make(folders=(unusable,)), expected)
    [message] = warnings(caplog)
    assert message.startswith("each process makes the word pieces of train.en by itself, at each start, since")
    assert "Not a directory" in message


def test_a_complete_file_may_be_read_only(make, small_disk):
    disk = small_disk("1m")
    expected = make(folders=(disk,))
    assert os.system(f"mount -o remount,ro {disk}") == 0
    assert_equal(make(folders=(disk,)), expected)


def test_a_full_disk_costs_only_the_file(make, small_disk, caplog, monkeypatch):
    disk = small_disk("16k")
    with monkeypatch.context() as patch:
        patch.setattr(Sentences, "expected_pieces", lambda self: 10_000)
        assert_equal(make(folders=(disk,)), make(folders=()))
    assert_equal(make(folders=(disk,)), make(folders=()))
    assert [("MiB are needed" in message, "No space left" in message) for message in warnings(caplog)] == [
        (True, False),
        (False, True),
    ]
    assert not list(disk.iterdir())


def test_leftovers_are_removed_when_they_are_old(make, tmp_path):
    old, new = tmp_path / "kept" / "a.parts", tmp_path / "kept" / "b.parts"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "0").write_bytes(b"part")
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    make()
    assert (old.exists(), new.exists()) == (False, True)


def _share(make_arguments, seconds, results):
    """Make the word pieces in another process, slowly; say how many sentences were made there."""
    kept_pieces.KEPT_FROM = kept_pieces._PART = 2
    corpus, folder, dictionary, bert_dir = make_arguments
    source = indexed_dataset.MMapIndexedDataset(corpus)
    bridge = DictionaryBridge(dictionary, AutoTokenizer.from_pretrained(bert_dir), max_tokens=32)
    encode_tokens, made = bridge.word_pieces_of_tokens, []

    def slowly(sentences):
        time.sleep(seconds)
        made.extend(sentences)
        return encode_tokens(sentences)

    bridge.word_pieces_of_tokens = slowly
    dataset = BertPairDataset(
        LanguagePairDataset(source, source.sizes, dictionary), bridge, folders=(folder,), name="en"
    )
    results.put((len(made), [dataset.bert_tokens(i).tolist() for i in range(len(LINES))]))


def start(arguments, results, seconds):
    process = processes().Process(target=_share, args=(arguments, seconds, results))
    process.start()
    return process


@pytest.fixture
def arguments(corpus, tmp_path, dictionary, bert_dir):
    return corpus, tmp_path / "kept", dictionary, bert_dir


def test_processes_share_the_work(arguments, tmp_path):
    results = processes().Queue()
    both = [start(arguments, results, 0.3) for _ in range(2)]
    (first, rows), (second, same) = (results.get(timeout=60) for _ in both)
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    assert rows == same
    assert first + second == len(LINES)
    assert len(files(tmp_path / "kept")) == 1


def test_what_a_killed_process_has_made_is_used_by_the_next_one(arguments, tmp_path, make):
    results = processes().Queue()
    killed = start(arguments, results, 0.5)
    while not list((tmp_path / "kept").glob("*.parts/1")):
        assert killed.is_alive()
        time.sleep(0.01)
    time.sleep(0.1)
    killed.kill()
    killed.join()
    other = start(arguments, results, 0)
    made, rows = results.get(timeout=60)
    other.join(60)
    assert made == len(LINES) - 4
    assert rows == [make(folders=()).bert_tokens(i).tolist() for i in range(len(LINES))]
    assert len(files(tmp_path / "kept")) == 1


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_map_the_file_by_themselves(make, context):
    dataset = make()
    assert max(map(max, BATCHES)) < len(dataset)
    assert len(pickle.dumps(dataset.word_pieces)) < 300
    assert_workers_agree(dataset, context)
