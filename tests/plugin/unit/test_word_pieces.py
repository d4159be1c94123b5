"""The word pieces of a corpus are made once: they are equal to those in memory, and new where anything differs."""

import os
import subprocess
from importlib.metadata import version

import numpy as np
import pytest
import torch
from fairseq.data import (
    AppendTokenDataset,
    ConcatDataset,
    IndexedCachedDataset,
    IndexedDataset,
    LanguagePairDataset,
    ListDataset,
    StripTokenDataset,
    TruncateDataset,
    indexed_dataset,
)
from fairseq.data.bucket_pad_length_dataset import BucketPadLengthDataset
from helpers import WORDS, dictionary_of, encode, translation_task, warnings_of
from numpy.testing import assert_array_equal
from tokenizers import normalizers

from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
from bert_fused_plugin.data import word_pieces
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.raw_text import read_raw_text
from bert_fused_plugin.data.word_pieces import Sentences

LINES = ["a dog", "the old man sees a small dog", "dog", "", "play@@ hou@@ se , a dog", "a man", "red dog"]
TEXT = ["A dog.", "old", "the dog eats", "", "play house", "men?", "red"]


def write_data(dictionary, prefix, lines=LINES):
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    for line in lines:
        builder.add_item(encode(dictionary, line))
    builder.finalize(f"{prefix}.idx")
    return str(prefix)


@pytest.fixture
def make(dictionary, bert_dir, tmp_path, monkeypatch):
    """A function that makes the data set of the corpus: make(folder=..., max_tokens=..., ...)."""
    monkeypatch.setattr(word_pieces, "KEPT_FROM", 2)
    monkeypatch.setattr(word_pieces, "_CHUNK", 2)
    corpus = write_data(dictionary, tmp_path / "src")

    def make(source=None, folder=tmp_path / "kept", texts=None, starts=(), tokenizer=None, words=None, **options):
        source = indexed_dataset.MMapIndexedDataset(corpus) if source is None else source
        tokenizer = tokenizer or load_tokenizer(bert_dir)
        bridge = DictionaryBridge(words or dictionary, tokenizer, **{"max_tokens": 32, **options})
        pairs = LanguagePairDataset(source, source.sizes, dictionary)
        return BertPairDataset(pairs, bridge, texts, set(starts), folder and folder / "train.en")

    return make


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_equal(dataset, expected):
    for name in ("pieces", "offsets"):
        ours, theirs = (getattr(data.word_pieces, name) for data in (dataset, expected))
        assert ours.dtype == theirs.dtype
        assert_array_equal(ours, theirs)
    assert dataset.word_pieces.digest == expected.word_pieces.digest


@pytest.fixture
def corpus(make, tmp_path):
    return str(tmp_path / "src")


@pytest.mark.parametrize("raw", [False, True], ids=["derived", "raw text"])
@pytest.mark.parametrize("options", [{}, {"context": 2, "max_tokens": 7, "starts": [0, 5]}, {"max_tokens": 4}])
def test_kept_pieces_are_those_that_are_made_in_memory(make, tmp_path, options, raw, monkeypatch, caplog):
    (tmp_path / "train.en").write_text("\n".join(TEXT), encoding="utf-8")
    texts = read_raw_text(str(tmp_path), "train", "en", [(len(LINES), 1)]) if raw else None
    expected = make(texts=texts, folder=None, **options)
    assert not (tmp_path / "kept").exists()
    assert_equal(make(texts=texts, **options), expected)
    [folder] = (tmp_path / "kept").iterdir()
    assert f"the word pieces of train.en are kept in {folder} from now on" in caplog.messages
    caplog.clear()
    monkeypatch.setattr(Sentences, "word_pieces", None)  # a later start makes nothing
    again = make(texts=texts, **options)
    assert_equal(again, expected)
    assert caplog.messages == [f"the word pieces of train.en are kept in {folder}"]
    assert files(folder) == ["meta.json", "offsets.npy", "pieces.npy"]
    pieces, offsets = np.load(folder / "pieces.npy"), np.load(folder / "offsets.npy")
    for index in range(len(again)):
        assert pieces[offsets[index] : offsets[index + 1]].tolist() == again.bert_tokens(index).tolist()


def lower(bert_dir, value):
    tokenizer = load_tokenizer(bert_dir)
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=value)
    return tokenizer


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 6},
        {"context": 1},
        {"starts": [0, 1]},
        {"subword": "none"},
        {"detok": "moses"},
        {"lang": "de"},
        {"tags": ["red"]},
        {"words": dictionary_of(*reversed(WORDS))},  # the same ids are other words
        {"tokenizer": False},
    ],
    ids="max_tokens context documents subword detok lang tags dictionary cased_tokenizer".split(),
)
def test_other_settings_have_other_files(make, options, bert_dir, tmp_path):
    if "tokenizer" in options:
        options = {"tokenizer": lower(bert_dir, False)}
    make()
    make(tokenizer=lower(bert_dir, True))  # which is the same
    assert len(files(tmp_path / "kept")) == 1
    dataset = make(**options)
    assert len(files(tmp_path / "kept")) == 2
    assert_equal(dataset, make(folder=None, **options))


def test_other_data_of_the_same_size_and_time_and_other_raw_text_have_other_files(make, dictionary, corpus, tmp_path):
    first = make()
    times = {end: os.stat(corpus + end) for end in (".bin", ".idx")}
    write_data(dictionary, corpus, [line.replace("dog", "man") for line in LINES])
    for end, stat in times.items():
        assert os.stat(corpus + end).st_size == stat.st_size
        os.utime(corpus + end, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    second = make()
    assert len(files(tmp_path / "kept")) == 2
    assert second.bert_tokens(0).tolist() != first.bert_tokens(0).tolist()
    assert_equal(second, make(folder=None))
    for text in (TEXT, [*TEXT[:-1], "dog"], TEXT):
        (tmp_path / "train.en").write_text("\n".join(text) + "\n", encoding="utf-8")
        dataset = make(texts=read_raw_text(str(tmp_path), "train", "en", [(len(LINES), 1)]))
        assert_equal(dataset, make(texts=text, folder=None))
    assert len(files(tmp_path / "kept")) == 4


def test_what_fairseq_combines_or_changes_counts(make, corpus, dictionary, tmp_path):
    def once():
        return indexed_dataset.MMapIndexedDataset(corpus)

    sources = [once(), ConcatDataset([once(), once()]), ConcatDataset([once(), once()], [2, 1])]
    for change in (AppendTokenDataset, StripTokenDataset):
        sources += [change(once(), dictionary.index(word)) for word in ("dog", "man")]
    sources += [TruncateDataset(once(), length) for length in (2, 3)]
    for number, source in enumerate(sources, start=1):
        for _ in range(2):
            dataset = make(source)
            assert len(files(tmp_path / "kept")) == number
            assert_equal(dataset, make(source, folder=None))


@pytest.mark.parametrize(("package", "detok"), [("tokenizers", "none"), ("sacremoses", "moses")])
def test_other_versions_of_what_makes_the_pieces_have_other_files(make, tmp_path, monkeypatch, package, detok):
    make(detok=detok)
    monkeypatch.setattr(word_pieces, "version", lambda name: "0" if name == package else version(name))
    make(detok=detok)
    assert len(files(tmp_path / "kept")) == 2


def test_padding_to_few_lengths_changes_nothing(make, dictionary, corpus, tmp_path):
    source = indexed_dataset.MMapIndexedDataset(corpus)
    padded = BucketPadLengthDataset(source, source.sizes, num_buckets=2, pad_idx=dictionary.pad(), left_pad=True)
    assert_equal(make(padded), make(folder=None))
    assert len(files(tmp_path / "kept")) == 1


@pytest.mark.parametrize("kind", [IndexedDataset, IndexedCachedDataset])
def test_the_pieces_of_old_formats_are_kept_too(make, dictionary, tmp_path, kind):
    builder = indexed_dataset.IndexedDatasetBuilder(str(tmp_path / "old.bin"))
    for line in LINES:
        builder.add_item(encode(dictionary, line))
    builder.finalize(str(tmp_path / "old.idx"))
    assert_equal(make(kind(str(tmp_path / "old"), fix_lua_indexing=True)), make(folder=None))
    assert len(files(tmp_path / "kept")) == 1


def test_data_that_is_in_no_file_and_small_data_are_not_kept(make, dictionary, tmp_path, monkeypatch, caplog):
    rows = [encode(dictionary, line) for line in LINES]
    make(ListDataset(rows, np.array([len(row) for row in rows])))
    [warning] = warnings_of(caplog)
    assert "the word pieces of train.en are not kept, and are made anew at each start: nothing tells which" in warning
    monkeypatch.setattr(word_pieces, "KEPT_FROM", len(LINES) + 1)
    make()
    assert not (tmp_path / "kept").exists()


# --- faults


@pytest.mark.parametrize("name", ["meta.json", "offsets.npy", "pieces.npy"])
@pytest.mark.parametrize("damage", [None, lambda data: data[:-5], lambda data: b""], ids=["missing", "cut", "empty"])
def test_missing_and_damaged_files_are_made_anew_the_latter_with_a_warning(make, tmp_path, caplog, name, damage):
    """A kill leaves a folder in which a file is missing."""
    make()
    expected = make(folder=None)
    [folder] = (tmp_path / "kept").iterdir()
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if damage is not None:
        (folder / name).write_bytes(damage(content))
    assert_equal(make(), expected)
    make()  # which has no more warnings
    assert [said.startswith(f"{folder} cannot be read (") for said in warnings_of(caplog)] == [True] * bool(damage)
    assert files(folder) == ["meta.json", "offsets.npy", "pieces.npy"]


def test_a_folder_that_cannot_be_read_or_written_costs_only_the_files(make, small_disk, caplog):
    disk = small_disk("1m")
    expected = make(folder=disk / "kept")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert_equal(make(folder=disk / "kept"), expected)
    assert warnings_of(caplog) == []
    assert_equal(make(folder=disk / "other"), expected)
    [warning] = warnings_of(caplog)
    assert warning.endswith("Read-only file system: '%s'); give a --bert-cache on a disk with room" % (disk / "other"))


def test_processes_that_train_together_read_and_do_not_write(make, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(word_pieces, "get_global_world_size", lambda: 2)
    expected = make()
    [warning] = warnings_of(caplog)
    assert warning.endswith("write nothing; run bert-fused-cache build first, with their flags")
    assert not (tmp_path / "kept").exists()
    with monkeypatch.context() as patch:
        patch.setattr(word_pieces, "get_global_world_size", lambda: 1)
        make()
    monkeypatch.setattr(Sentences, "word_pieces", None)
    assert_equal(make(), expected)


# --- the task


@pytest.fixture
def task(tmp_path, dictionary, bert_dir, monkeypatch):
    """Make a task on two data directories, of which BERT reads at most 4 word pieces: task(bert_cache=...)."""
    monkeypatch.setattr(word_pieces, "KEPT_FROM", 5)
    for split, lines in (("a/train", LINES), ("b/train", LINES[::-1]), ("a/valid", LINES[:6]), ("a/test", LINES[:4])):
        (tmp_path / split).parent.mkdir(exist_ok=True)
        for lang in ("en", "de"):
            write_data(dictionary, tmp_path / f"{split}.en-de.{lang}", lines)

    def make(**settings):
        settings.update(train_subset="train", dataset_impl="mmap", required_seq_len_multiple=1)
        made = translation_task(dictionary, data=f"{tmp_path}/a:{tmp_path}/b", **settings)
        made.bridge = DictionaryBridge(dictionary, load_tokenizer(bert_dir), max_tokens=4)
        return made

    return make


def test_each_data_directory_keeps_its_own_and_the_log_stays_the_same(task, tmp_path, caplog):
    said = []
    for epoch in (1, 2, 3):
        caplog.clear()
        made = task()
        made.load_dataset("train", epoch=epoch)
        said += [message for message in caplog.messages if message.startswith("train: ")]
        assert len(files(tmp_path / "a" / "bert-pieces")) == 1
        assert (tmp_path / "b" / "bert-pieces").exists() == (epoch > 1)
    assert said == ["train: 25 word pieces for BERT, 3.6 a sentence, 5 sentences reach the limit of 4"] * 3
    made.load_dataset("valid")
    made.load_dataset("test")  # which is small
    assert [name.split("-")[0] for name in files(tmp_path / "a" / "bert-pieces")] == ["train.en", "valid.en"]
    for i in range(4):
        assert torch.equal(made.datasets["valid"].bert_tokens(i), made.datasets["test"].bert_tokens(i))


def test_the_directory_of_the_cache_keeps_them_if_there_is_one(task, tmp_path):
    task(bert_cache=f"{tmp_path}/cache").load_dataset("train")
    assert len(files(tmp_path / "cache" / "word-pieces")) == 1
    assert not (tmp_path / "a" / "bert-pieces").exists()
