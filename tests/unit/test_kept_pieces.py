"""The word pieces of a corpus are made once: they are equal to those in memory, and new where anything differs."""

import os
import pickle
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import torch.distributed as dist
from fairseq.data import AppendTokenDataset, ConcatDataset, ListDataset, indexed_dataset
from helpers import WORDS, encode, processes
from kept_pieces_case import LINES, assert_equal, files, maker, warnings, write_data
from test_data_loader_workers import BATCHES, assert_workers_agree
from tokenizers import normalizers

import bert_fused_plugin.files
from bert_fused_plugin.bert.hugging_face import load_tokenizer
from bert_fused_plugin.data import kept_pieces
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.raw_text import read_raw_text
from bert_fused_plugin.data.tokenizing import Sentences
from bert_fused_plugin.errors import BertFusedError

TEXT = ["A dog.", "old", "the dog eats", "", "play house", "men?", "red"]


@pytest.fixture
def make(dictionary, bert_dir, tmp_path, monkeypatch):
    return maker(dictionary, bert_dir, tmp_path, monkeypatch)


@pytest.fixture
def corpus(make, tmp_path):
    return str(tmp_path / "src")


@pytest.mark.parametrize("raw", [False, True], ids=["derived", "raw text"])
@pytest.mark.parametrize("options", [{}, {"context": 2, "max_tokens": 7, "starts": [0, 5]}, {"max_tokens": 4}])
def test_kept_pieces_are_those_that_are_made_in_memory(make, tmp_path, options, raw, monkeypatch):
    (tmp_path / "train.en").write_text("\n".join(TEXT), encoding="utf-8")
    texts = read_raw_text(str(tmp_path), "train", "en", len(LINES)) if raw else None
    first, again = (make(texts=texts, **options) for _ in range(2))
    expected = make(texts=texts, folders=(), **options)
    assert first.word_pieces.folder == again.word_pieces.folder
    assert expected.word_pieces.folder is None
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
    assert caplog.messages == [f"the word pieces of train.en are kept in {tmp_path}/kept/{files(tmp_path / 'kept')[0]}"]


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
        {"subword": "none"},
        {"detok": "moses"},
        {"lang": "de"},
        {"tags": ["red"]},
        {"tokenizer": lambda bert_dir: lower(bert_dir, False)},
        {"tokenizer": with_token},
    ],
    ids="max_tokens context subword detok lang tags cased_tokenizer tokenizer_with_token".split(),
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


def test_other_documents_have_another_file(make, tmp_path):
    make(context=1)
    dataset = make(context=1, starts=[0, 1])
    assert len(files(tmp_path / "kept")) == 2
    assert_equal(dataset, make(folders=(), context=1, starts=[0, 1]))


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


@pytest.mark.parametrize("forked", [True, False])
def test_workers_map_the_file_by_themselves(make, forked):
    dataset = make()
    assert max(map(max, BATCHES)) < len(dataset)
    assert len(pickle.dumps(dataset.word_pieces)) < 300
    assert_workers_agree(dataset, "fork" if forked else processes())


def test_anybody_can_read_them_with_numpy(make, tmp_path):
    dataset = make()
    [folder] = (tmp_path / "kept").iterdir()
    assert files(folder) == ["meta.json", "offsets.npy", "pieces.npy"]
    pieces, offsets = np.load(folder / "pieces.npy"), np.load(folder / "offsets.npy")
    for index in range(len(dataset)):
        assert pieces[offsets[index] : offsets[index + 1]].tolist() == dataset.bert_tokens(index).tolist()


# --- faults


@pytest.mark.parametrize("name", ["meta.json", "offsets.npy", "pieces.npy"])
@pytest.mark.parametrize("damage", [lambda data: data[:-5], lambda data: b""], ids=["cut", "empty"])
def test_damaged_files_are_made_anew_with_a_warning(make, tmp_path, caplog, name, damage):
    make()
    expected = make(folders=())
    [folder] = (tmp_path / "kept").iterdir()
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    assert_equal(make(), expected)
    [warning] = warnings(caplog)
    assert warning.startswith(f"{folder} cannot be read (")
    assert files(folder) == ["meta.json", "offsets.npy", "pieces.npy"]
    caplog.clear()
    make()
    assert warnings(caplog) == []


def test_the_first_folder_that_has_them_or_can_be_written_is_used(make, tmp_path, small_disk, caplog):
    disk = small_disk("1m")
    (disk / "full").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    folders = [disk / "full", tmp_path / "a", tmp_path / "b"]
    assert make(folders=folders).word_pieces.folder.parent == tmp_path / "a"
    assert make(folders=folders[::-1]).word_pieces.folder.parent == tmp_path / "a"
    assert warnings(caplog) == []
    assert_equal(make(folders=folders[:1]), make(folders=()))
    [warning] = warnings(caplog)
    assert "each process makes the word pieces of train.en by itself, at each start, since" in warning
    assert "Read-only file system" in warning


def test_a_disk_without_room_costs_only_the_files(make, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(kept_pieces.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    assert_equal(make(), make(folders=()))
    assert "about 0 MiB must be written, and 0 MiB are free" in caplog.text


def test_a_disk_that_fills_up_is_an_error_with_a_remedy(make, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bert_fused_plugin.files.os, "fsync", full)
    with pytest.raises(BertFusedError, match=r"cannot be written or read \(.*No space left on device\); make room on"):
        make()


def test_complete_word_pieces_may_be_read_only(make, small_disk):
    disk = small_disk("1m")
    expected = make(folders=[disk / "kept"])
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert_equal(make(folders=[disk / "kept"]), expected)


def test_what_a_killed_process_has_made_is_used(make, tmp_path, monkeypatch):
    real, made = Sentences.word_pieces, []

    def dying(sentences, start, stop):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(start)
        return real(sentences, start, stop)

    with monkeypatch.context() as patch:
        patch.setattr(Sentences, "word_pieces", dying)
        with pytest.raises(KeyboardInterrupt):
            make()
    again = []
    monkeypatch.setattr(
        Sentences, "word_pieces", lambda sentences, *some: (again.append(some[0]), real(sentences, *some))[1]
    )
    dataset = make()
    assert sorted(made + again) == [0, 2, 4, 6]
    assert_equal(dataset, make(folders=()))


def test_a_job_that_comes_last_leaves_nothing_beside_what_another_has_made(make, tmp_path, monkeypatch):
    real, busy = Sentences.word_pieces, []

    def interrupted(sentences, start, stop):
        pieces = real(sentences, start, stop)
        if not busy:
            busy.append(start)
            make()  # the other job, from its beginning to its end
        return pieces

    monkeypatch.setattr(Sentences, "word_pieces", interrupted)
    dataset = make()
    assert_equal(dataset, make(folders=()))
    assert files(dataset.word_pieces.folder) == ["meta.json", "offsets.npy", "pieces.npy"]


def _make_as_rank(arguments, group, rank, ranks, results):
    dist.init_process_group("gloo", init_method=f"file://{group}", rank=rank, world_size=ranks)
    with pytest.MonkeyPatch.context() as patch:
        made = []
        real = Sentences.word_pieces
        patch.setattr(
            Sentences, "word_pieces", lambda sentences, *some: (made.append(some[0]), real(sentences, *some))[1]
        )
        dataset = maker(*arguments, patch, write=lambda _, prefix: str(prefix))()  # which is there
        results.put((rank, sorted(made), dataset.word_pieces.digest))
    dist.destroy_process_group()


def test_ranks_share_the_work(make, dictionary, bert_dir, tmp_path):
    context = processes()
    results = context.Queue()
    arguments = ((dictionary, bert_dir, tmp_path), tmp_path / "group")
    ranks = [context.Process(target=_make_as_rank, args=(*arguments, rank, 2, results)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    found = sorted(results.get(timeout=60) for _ in ranks)
    digest = make(folders=()).word_pieces.digest
    assert found == [(0, [0, 4], digest), (1, [2, 6], digest)]
    for rank in ranks:
        rank.join(30)
        assert rank.exitcode == 0
