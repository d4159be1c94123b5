"""The word pieces of a corpus are made once: they are equal to those in memory, and new where anything differs."""

import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.metadata import version
from types import SimpleNamespace

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
from test_states_on_disk import CountingBert, D
from tokenizers import normalizers
from torch.utils.data import DataLoader

import bert_fused_plugin.files
from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
from bert_fused_plugin.data import kept_pieces
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.cached_states import CachedStates
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.kept_pieces import Sentences
from bert_fused_plugin.data.raw_text import read_raw_text
from bert_fused_plugin.errors import BertFusedError

LINES = ["a dog", "the old man sees a small dog", "dog", "", "play@@ hou@@ se , a dog", "a man", "red dog"]
BATCHES = [[0, 1], [4], [3, 2]]
TEXT = ["A dog.", "old", "the dog eats", "", "play house", "men?", "red"]


def write_data(dictionary, prefix, lines=LINES):
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    for line in lines:
        builder.add_item(encode(dictionary, line))
    builder.finalize(f"{prefix}.idx")
    return str(prefix)


@pytest.fixture
def make(dictionary, bert_dir, tmp_path, monkeypatch):
    """A function that makes the data set of the corpus: make(folders=..., max_tokens=..., ...)."""
    monkeypatch.setattr(kept_pieces, "KEPT_FROM", 2)
    monkeypatch.setattr(kept_pieces, "_PART", 2)
    corpus = write_data(dictionary, tmp_path / "src")

    def make(source=None, folders=(tmp_path / "kept",), texts=None, starts=(), tokenizer=None, words=None, **options):
        source = indexed_dataset.MMapIndexedDataset(corpus) if source is None else source
        tokenizer = tokenizer or load_tokenizer(bert_dir)
        bridge = DictionaryBridge(words or dictionary, tokenizer, **{"max_tokens": 32, **options})
        pairs = LanguagePairDataset(source, source.sizes, dictionary)
        return BertPairDataset(pairs, bridge, texts, document_starts=set(starts), folders=folders, name="train.en")

    return make


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_equal(dataset, expected):
    for name in ("pieces", "offsets", "sizes"):
        ours, theirs = (getattr(data.word_pieces, name) for data in (dataset, expected))
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert dataset.word_pieces.digest == expected.word_pieces.digest


@pytest.fixture
def corpus(make, tmp_path):
    return str(tmp_path / "src")


@pytest.mark.parametrize("raw", [False, True], ids=["derived", "raw text"])
@pytest.mark.parametrize("options", [{}, {"context": 2, "max_tokens": 7, "starts": [0, 5]}, {"max_tokens": 4}])
def test_kept_pieces_are_those_that_are_made_in_memory(make, tmp_path, options, raw, monkeypatch, caplog):
    (tmp_path / "train.en").write_text("\n".join(TEXT), encoding="utf-8")
    texts = read_raw_text(str(tmp_path), "train", "en", len(LINES)) if raw else None
    expected = make(texts=texts, folders=(), **options)
    assert expected.word_pieces.folder is None
    assert_equal(make(texts=texts, **options), expected)
    [folder] = (tmp_path / "kept").iterdir()
    assert f"the word pieces of 7 sentences are made, and kept in {folder}" in caplog.messages
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
    assert_equal(dataset, make(folders=(), **options))


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
    assert_equal(second, make(folders=()))
    for text in (TEXT, [*TEXT[:-1], "dog"], TEXT):
        (tmp_path / "train.en").write_text("\n".join(text) + "\n", encoding="utf-8")
        dataset = make(texts=read_raw_text(str(tmp_path), "train", "en", len(LINES)))
        assert_equal(dataset, make(texts=text, folders=()))
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
            assert_equal(dataset, make(source, folders=()))


@pytest.mark.parametrize(("package", "detok"), [("tokenizers", "none"), ("sacremoses", "moses")])
def test_other_versions_of_what_makes_the_pieces_have_other_files(make, tmp_path, monkeypatch, package, detok):
    make(detok=detok)
    monkeypatch.setattr(kept_pieces, "version", lambda name: "0" if name == package else version(name))
    make(detok=detok)
    assert len(files(tmp_path / "kept")) == 2


def test_padding_to_few_lengths_changes_nothing(make, dictionary, corpus, tmp_path):
    source = indexed_dataset.MMapIndexedDataset(corpus)
    padded = BucketPadLengthDataset(source, source.sizes, num_buckets=2, pad_idx=dictionary.pad(), left_pad=True)
    assert_equal(make(padded), make(folders=()))
    assert len(files(tmp_path / "kept")) == 1


@pytest.mark.parametrize("kind", [IndexedDataset, IndexedCachedDataset])
def test_the_pieces_of_old_formats_are_kept_too(make, dictionary, tmp_path, kind):
    builder = indexed_dataset.IndexedDatasetBuilder(str(tmp_path / "old.bin"))
    for line in LINES:
        builder.add_item(encode(dictionary, line))
    builder.finalize(str(tmp_path / "old.idx"))
    assert_equal(make(kind(str(tmp_path / "old"), fix_lua_indexing=True)), make(folders=()))
    assert len(files(tmp_path / "kept")) == 1


def test_data_that_is_in_no_file_and_small_data_are_not_kept(make, dictionary, tmp_path, monkeypatch, caplog):
    rows = [encode(dictionary, line) for line in LINES]
    make(ListDataset(rows, np.array([len(row) for row in rows])))
    [warning] = warnings_of(caplog)
    assert "makes the word pieces of train.en by itself, each time they are loaded, since nothing tells" in warning
    assert warning.endswith("to keep them, give --dataset-impl mmap")
    monkeypatch.setattr(kept_pieces, "KEPT_FROM", len(LINES) + 1)
    make()
    assert not (tmp_path / "kept").exists()


def assert_workers_agree(dataset):
    here = [dataset.collater([dataset[i] for i in batch]) for batch in BATCHES]
    loader = DataLoader(dataset, batch_sampler=BATCHES, collate_fn=dataset.collater, num_workers=2)
    for batch, expected in zip(list(loader), here):
        assert batch["id"].tolist() == expected["id"].tolist()
        assert set(batch["net_input"]) == set(expected["net_input"])
        for name in set(batch["net_input"]) - {"prev_output_tokens"}:  # there are no targets
            assert torch.equal(batch["net_input"][name], expected["net_input"][name])


def test_workers_read_pieces_and_states(make, tmp_path):
    dataset = make()
    for other in (dataset, make(folders=())):
        assert_workers_agree(other)
    states = CachedStates(tmp_path / "states", dataset.word_pieces, D, "fp32")
    states.add_missing(CountingBert().load, 0, 1)
    dataset.states = states
    assert "bert_out" in dataset[0]
    assert_workers_agree(dataset)


# --- faults


@pytest.mark.parametrize("name", ["meta.json", "offsets.npy", "pieces.npy"])
@pytest.mark.parametrize("damage", [lambda data: data[:-5], lambda data: b""], ids=["cut", "empty"])
def test_damaged_files_are_made_anew_with_a_warning(make, tmp_path, caplog, name, damage):
    make()
    expected = make(folders=())
    [folder] = (tmp_path / "kept").iterdir()
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    assert_equal(make(), expected)
    make()
    [warning] = warnings_of(caplog)  # and the second start has none
    assert warning.startswith(f"{folder} cannot be read (")
    assert files(folder) == ["meta.json", "offsets.npy", "pieces.npy"]


def test_an_error_of_the_system_removes_nothing(make, monkeypatch, caplog):
    make()
    monkeypatch.setattr(Sentences, "word_pieces", None)  # nothing is made anew

    def failing(folder):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(kept_pieces.WordPieces, "load", failing)
    with pytest.raises(BertFusedError, match=r"cannot be written or read \(.*Too many open files\)"):
        make()
    assert warnings_of(caplog) == []


def test_the_first_folder_that_has_them_or_can_be_written_is_used(make, tmp_path, small_disk, caplog, monkeypatch):
    disk = small_disk("1m")
    (disk / "full").mkdir()
    expected = make(folders=[disk / "kept"])
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert_equal(make(folders=[disk / "kept"]), expected)
    folders = [disk / "full", tmp_path / "a", tmp_path / "b"]
    assert make(folders=folders).word_pieces.folder.parent == tmp_path / "a"
    assert make(folders=folders[::-1]).word_pieces.folder.parent == tmp_path / "a"
    assert warnings_of(caplog) == []
    assert_equal(make(folders=folders[:1]), expected)
    [warning] = warnings_of(caplog)
    assert "each process makes the word pieces of train.en by itself, each time they are loaded, since" in warning
    assert "Read-only file system" in warning
    monkeypatch.setattr(kept_pieces.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    assert_equal(make(folders=[tmp_path / "c"]), expected)  # a disk without room costs only the files
    assert "about 0 MiB must be written, and 0 MiB are free" in caplog.text


def test_a_disk_that_fills_up_is_an_error_with_a_remedy(make, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bert_fused_plugin.files.os, "fsync", full)
    with pytest.raises(BertFusedError, match=r"cannot be written or read \(.*No space left on device\); make room on"):
        make()


@pytest.fixture
def made(monkeypatch):
    """The first sentence of each part that is made, for each rank, and what is called after each part."""
    real = Sentences.word_pieces
    made = SimpleNamespace(local=threading.local(), starts={0: [], 1: []}, then=lambda: None)
    made.local.rank = 0

    def word_pieces(sentences, start, stop, *read):
        pieces = real(sentences, start, stop, *read)
        made.starts[made.local.rank].append(start)
        made.then()
        return pieces

    monkeypatch.setattr(Sentences, "word_pieces", word_pieces)
    return made


def test_what_a_killed_process_has_made_is_used(make, made, caplog):
    def die():
        if len(made.starts[0]) == 3:
            raise KeyboardInterrupt

    expected, made.starts[0], made.then = make(folders=()), [], die
    with pytest.raises(KeyboardInterrupt):
        make()
    del made.starts[0][2:]  # the part that was not written yet
    made.then = lambda: None
    assert_equal(make(), expected)
    assert sorted(made.starts[0]) == [0, 2, 4, 6]
    assert (
        "word pieces for BERT: 3 sentences" in caplog.messages or "word pieces for BERT: 4 sentences" in caplog.messages
    )


def test_a_job_that_comes_last_leaves_nothing_beside_what_another_has_made(make, made):
    expected, made.starts[0] = make(folders=()), []
    made.then = lambda: len(made.starts[0]) == 1 and make()  # the other job, from its beginning to its end
    dataset = make()
    assert_equal(dataset, expected)
    assert files(dataset.word_pieces.folder) == ["meta.json", "offsets.npy", "pieces.npy"]


def test_ranks_share_the_work(make, made, monkeypatch):
    def run(rank):
        made.local.rank = rank
        return make().word_pieces.digest

    expected, made.starts[0] = make(folders=()).word_pieces.digest, []
    monkeypatch.setattr(kept_pieces, "ranks_in", lambda place: nullcontext((made.local.rank, 2)))
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(run, range(2))) == [expected] * 2
    assert {rank: sorted(starts) for rank, starts in made.starts.items()} == {0: [0, 4], 1: [2, 6]}


# --- the task


@pytest.fixture
def task(tmp_path, dictionary, bert_dir, monkeypatch):
    """Make a task on two data directories, of which BERT reads at most 4 word pieces: task(bert_cache=...)."""
    monkeypatch.setattr(kept_pieces, "KEPT_FROM", 5)
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
        assert made.datasets["train"].word_pieces.folder is not None
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
    task().load_dataset("train")
    made = task(bert_cache=f"{tmp_path}/other")
    made.load_dataset("train")  # finds those beside the data
    assert made.datasets["train"].word_pieces.folder.parent == tmp_path / "a" / "bert-pieces"
    assert not (tmp_path / "other").exists()
