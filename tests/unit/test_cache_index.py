"""The index of the cache: what it finds, its files, and what happens to them."""

import logging
import os
import tempfile

import numpy as np
import pytest

from bert_fused_plugin.data import cache_index, key_index
from bert_fused_plugin.data.cache_index import CacheIndex
from bert_fused_plugin.data.key_index import KeyIndex, SegmentKeys, halves, index_of_segments, merge, read_index
from bert_fused_plugin.data.work_locks import try_lock


def random_keys(number, seed=0):
    """Keys of which some share their first half."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 256, (number, 16), dtype=np.uint8)
    keys[1::9, :8] = keys[::9, :8][: len(keys[1::9])]
    return keys


def segment(name, keys, size=100):
    return SegmentKeys(name, size, keys, np.arange(len(keys), dtype=np.uint32) * 3)


def segments(number, each=20):
    keys = random_keys(number * each)
    return [segment(f"{n}", keys[n * each : (n + 1) * each], 100 + n) for n in range(number)]


def sizes(some):
    return {each.name: each.size for each in some}


def found(index, keys):
    """Return name and start of each of *keys*, or None."""
    return [None if number < 0 else (index.names[number], start) for number, start in index.find(keys).tolist()]


def check(index, some, gone=()):
    """Check that *index* finds the sentences of *some* segments, and no others."""
    for name, _, keys, starts in some:
        places = [(name, start) for start in starts.tolist()]
        assert found(index, keys) == [None if name in gone else place for place in places]
    assert found(index, random_keys(50, seed=1)) == [None] * 50
    assert len(index) == sum(len(each.keys) for each in some if each.name not in gone)


def written(folder, some):
    index = CacheIndex(folder, [])
    index.add(some)
    index.write(sizes(some))
    return index


def opened(folder, files):
    index = CacheIndex(folder, [])
    index.update(files)
    return index


def files(folder):
    return sorted(folder.glob("*.index"))


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_what_is_in_memory_and_in_files_is_found(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(cache_index, "ROWS", chunk)
    monkeypatch.setattr(key_index, "_CHUNK", chunk)
    some = segments(4)
    index = CacheIndex(tmp_path, [])
    assert found(index, some[0].keys) == [None] * 20
    index.add(some[:2])
    check(index, some[:2])
    index.write(sizes(some))
    assert index.rows_in_memory == 0
    index.add(some[2:])
    check(index, some)
    check(opened(tmp_path, sizes(some)), some[:2])


def test_a_key_in_several_segments_is_found_in_one(tmp_path):
    keys = random_keys(5)
    index = CacheIndex(tmp_path, [])
    index.add([segment("a", keys), segment("b", keys[::-1])])
    index.set_there({"b": 100})
    assert found(index, keys) in ([None] * 5, [("b", start) for start in (12, 9, 6, 3, 0)])


def test_the_file_is_as_small_as_it_can_be(tmp_path):
    written(tmp_path, segments(3, each=1000))
    [file] = files(tmp_path)
    assert file.stat().st_size < 3000 * 24 + 1000
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


def test_a_segment_that_is_gone_or_has_another_size_is_not_found(tmp_path):
    some = segments(3)
    written(tmp_path, some)
    check(opened(tmp_path, {"0": 100, "2": 102}), some, gone={"1"})
    index = opened(tmp_path, {"0": 100, "1": 7, "2": 102})
    assert index.covered == {"0", "2"}
    check(index, some, gone={"1"})
    index.add([segment("1", some[1].keys, 7)])
    check(index, some)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d[:-1],
        lambda d: b"",
        lambda d: d[:-9] + bytes([d[-9] ^ 2]) + d[-8:],
        lambda d: d.replace(b'"segments"', b'"segmentz"'),
        lambda d: d.replace(b", 100]", b"- 100]", 1),
    ],
)
def test_a_damaged_index_is_removed(tmp_path, damage, caplog):
    some = segments(2)
    written(tmp_path, some)
    [file] = files(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    index = opened(tmp_path, sizes(some))
    assert index.covered == set()
    assert "is damaged: it is removed, and written anew" in caplog.text
    assert files(tmp_path) == []


def test_of_many_indexes_few_are_left_and_little_is_written_twice(tmp_path, monkeypatch):
    some = segments(64, each=4)
    rows = []
    write = cache_index.write_index
    monkeypatch.setattr(
        cache_index,
        "write_index",
        lambda file, work, parts: (rows.append(sum(len(index) for index, _ in parts)), write(file, work, parts)),
    )
    for each in some:
        index = opened(tmp_path, sizes(some))
        index.add([each])
        index.write(sizes(some))
    check(opened(tmp_path, sizes(some)), some)
    assert len(files(tmp_path)) <= 4
    assert sum(rows) <= 64 * 4 * 16


def test_segments_that_are_gone_leave_the_index_when_it_is_merged(tmp_path):
    some = segments(3)
    written(tmp_path, some[:2])
    index = opened(tmp_path, sizes(some[1:]))
    index.add(some[2:])
    index.write(sizes(some[1:]))
    [file] = files(tmp_path)
    assert [name for name, _ in read_index(file).names] == ["2", "1"]
    check(index, some, gone={"0"})


def test_a_segment_that_another_process_has_just_written_stays_in_the_index(tmp_path):
    some = segments(3)
    index = CacheIndex(tmp_path, [])
    (tmp_path / "1").touch()
    written(tmp_path, some[1:2])
    index.add(some[:1])
    index.write(sizes(some[:1]))  # it does not know of the other one yet
    check(index, some[:1])
    assert len(files(tmp_path)) == 1
    check(opened(tmp_path, sizes(some)), some[:2])


def test_the_same_segment_in_two_indexes_counts_once(tmp_path):
    some = segments(2)
    index, other = CacheIndex(tmp_path, []), CacheIndex(tmp_path, [])
    index.add(some[:1])
    other.add(some)
    index.write(sizes(some))
    other.write(sizes(some))
    assert len(other) == 40
    check(opened(tmp_path, sizes(some)), some)
    [file] = files(tmp_path)
    assert len(read_index(file)) == 40


def test_what_another_process_has_written_replaces_what_is_in_memory(tmp_path):
    some = segments(3)
    index = CacheIndex(tmp_path, [])
    index.add(some[:2])
    written(tmp_path, some[1::-1])
    index.update(sizes(some))
    assert index.rows_in_memory == 0
    check(index, some[:2])


def test_no_process_waits_for_another_that_writes_an_index(tmp_path):
    some = segments(2)
    index = CacheIndex(tmp_path, [])
    index.add(some)
    with try_lock(tmp_path, "index"):
        index.write(sizes(some))
    assert files(tmp_path) == []
    check(index, some)


def test_a_folder_that_cannot_be_written_gets_an_index_of_this_process(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(cache_index, "ROWS", 50)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    some = segments(8)
    index = CacheIndex(tmp_path, [])
    for each in some:
        index.add([each])
        index.write(sizes(some))
    assert index.rows_in_memory < 50
    before = index.rows_in_memory
    assert files(tmp_path) == list((tmp_path / "elsewhere").iterdir()) == []
    check(index, some)
    assert caplog.text.count(f"so this process makes its own one in {tmp_path / 'elsewhere'}") == 1
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    last = segment("8", random_keys(60, seed=2))
    index.add([last])
    index.write(sizes([*some, last]))
    assert index.rows_in_memory == before + 60
    assert "this process keeps its index in memory" in caplog.text
    check(index, [*some, last])


def test_a_full_disk_leaves_the_index_in_memory(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_index, "write_index", full)
    some = segments(2)
    index = written(tmp_path, some)
    check(index, some)


def test_a_merge_keeps_the_order_and_leaves_out_what_it_shall(monkeypatch):
    monkeypatch.setattr(key_index, "_CHUNK", 8)
    some = segments(6)
    parts = [index_of_segments(some[:3]), index_of_segments(some[3:])]
    index = merge([(parts[0], np.array([True, False, True])), (parts[1], np.array([True, True, False]))])
    assert [name for name, _ in index.names] == ["0", "2", "3", "4"]
    assert (np.diff(index.first.astype(object)) >= 0).all()
    for number, original in enumerate([some[0], some[2], some[3], some[4]]):
        rows = index.find(*halves(original.keys))
        assert (index.segment[rows] == number).all()
        assert index.start[rows].tolist() == original.starts.tolist()
    assert isinstance(index, KeyIndex)
    assert len(index) == 80
