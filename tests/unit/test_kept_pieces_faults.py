"""What happens to the word pieces of a corpus while they are made and read: kill -9, damage, full and closed disks."""

import errno
import mmap
import os
import pickle
import time
from types import SimpleNamespace

import pytest
from fairseq.data import LanguagePairDataset, indexed_dataset
from helpers import processes
from kept_pieces_case import LINES, assert_equal, files, maker, warnings
from transformers import AutoTokenizer

from bert_fused_plugin.data import kept_pieces, piece_files
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.tokenizing import Sentences


@pytest.fixture
def make(dictionary, bert_dir, tmp_path, monkeypatch):
    return maker(dictionary, bert_dir, tmp_path, monkeypatch)


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


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-152] + bytes([data[-152] ^ 1]) + data[-151:],
        lambda data: b"PK\3\4" + data,
    ],
    ids=["empty", "word pieces", "zip"],
)
def test_a_damaged_part_is_made_anew(make, tmp_path, monkeypatch, damage):
    """As a power cut may leave it."""
    join, damaged = kept_pieces.join_parts, []

    def damage_once(file, folder, parts, sentences):
        if not damaged:
            damaged.append(parts[1].write_bytes(damage(parts[1].read_bytes())))
        join(file, folder, parts, sentences)

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


def fail(*arguments, **options):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("name", "failing"), [("_checksum", fail), ("mmap", SimpleNamespace(mmap=fail, ACCESS_READ=mmap.ACCESS_READ))]
)
def test_a_file_that_cannot_be_read_just_now_stays(make, tmp_path, caplog, monkeypatch, name, failing):
    """As on a network disk that fails for a moment, or with too little address space."""
    expected = make(folders=())
    make()
    [file] = (tmp_path / "kept").iterdir()
    before = file.stat()
    with monkeypatch.context() as patch:
        patch.setattr(piece_files, name, failing)
        assert_equal(make(), expected)
    [message] = warnings(caplog)
    assert f"since {file.parent} cannot be used ([Errno 5] Input/output error)" in message
    assert (files(file.parent), file.stat().st_ino) == ([file.name], before.st_ino)
    caplog.clear()
    assert_equal(make(), expected)
    assert not warnings(caplog)


def test_the_next_folder_is_used_if_a_file_cannot_be_read(make, tmp_path, caplog, monkeypatch):
    first, second = tmp_path / "kept", tmp_path / "other"
    make()
    read = piece_files._read_header
    monkeypatch.setattr(piece_files, "_read_header", lambda file: fail() if file.parent == first else read(file))
    for _ in range(2):
        assert_equal(make(folders=(first, second)), make(folders=()))
        assert files(first) == files(second)
    assert not warnings(caplog)


def test_a_complete_file_may_be_read_only(make, small_disk):
    disk = small_disk("1m")
    expected = make(folders=(disk,))
    assert os.system(f"mount -o remount,ro {disk}") == 0
    assert_equal(make(folders=(disk,)), expected)


@pytest.mark.parametrize("change", [lambda file: None, lambda file: file.write_bytes(b"other")], ids=["gone", "other"])
def test_workers_get_a_copy_of_word_pieces_whose_file_was_deleted(make, tmp_path, change):
    """Workers that are not forked start anew in each epoch."""
    dataset = make()
    [file] = (tmp_path / "kept").iterdir()
    file.unlink()
    change(file)
    assert_equal(pickle.loads(pickle.dumps(dataset)), make(folders=()))


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


def test_what_others_have_made_is_not_removed_for_want_of_space(make, small_disk, monkeypatch):
    """A process that comes late finds less room, since others have filled it with parts of the same file."""
    disk = small_disk("64k")
    make(folders=(disk,))
    [file] = disk.iterdir()
    part = disk / f"{file.stem}.parts" / "0"
    part.parent.mkdir()
    part.write_bytes(bytes(30_000))
    file.unlink()
    sizes = iter([10**6, 5000])
    monkeypatch.setattr(Sentences, "expected_pieces", lambda self: next(sizes))
    make(folders=(disk,))
    assert part.exists()
    make(folders=(disk,))  # 40 kB and a little, of which 30 are there
    assert files(disk) == [file.name]


def test_an_interrupted_process_leaves_its_parts(make, tmp_path, monkeypatch):
    join = kept_pieces.join_parts

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(kept_pieces, "join_parts", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make()
    assert len(list(tmp_path.glob("kept/*.parts/[0-9]"))) == 4
    monkeypatch.setattr(kept_pieces, "join_parts", join)
    monkeypatch.setattr(DictionaryBridge, "word_pieces_of_tokens", None)
    make()
    assert len(files(tmp_path / "kept")) == 1


def test_leftovers_are_removed_when_they_are_old(make, tmp_path):
    names = (f"a-{'0' * 32}.parts", f"b-{'1' * 32}.parts", "of-the-user.parts")
    old, new, foreign = (tmp_path / "kept" / name for name in names)
    for folder in (old, new, foreign):
        folder.mkdir(parents=True)
        (folder / "0").write_bytes(b"part")
    yesterday = time.time() - 25 * 3600
    for folder in (old, foreign):
        os.utime(folder, (yesterday, yesterday))
    make()
    assert (old.exists(), new.exists(), foreign.exists()) == (False, True, True)


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
def arguments(make, tmp_path, dictionary, bert_dir):
    return str(tmp_path / "src"), tmp_path / "kept", dictionary, bert_dir


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
