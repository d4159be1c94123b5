"""Opening a cache reads no states; each segment is verified once, at the latest when it is read."""

import os
import pickle
import resource

import numpy as np
import pytest
import torch
from helpers import processes
from test_feature_cache import SENTENCES, CountingBert, check, expected, filled, open_cache, segments  # noqa: F401
from unreadable_files import unreadable

from bert_fused_plugin.data import cache_folder, cache_plan, mapped_states, tensor_files
from bert_fused_plugin.data.cache_stamps import STAMPS, read_stamps, stamp
from bert_fused_plugin.data.feature_segments import write_segment
from bert_fused_plugin.data.word_pieces import WordPieces

OLD = 10**18  # a time of long ago, in nanoseconds


@pytest.fixture
def verified(monkeypatch):
    """The names of the segments whose states are read to verify them."""
    names = []
    is_sound = mapped_states.is_sound
    monkeypatch.setattr(
        mapped_states, "is_sound", lambda file, segment: (names.append(file.name), is_sound(file, segment))[1]
    )
    return names


@pytest.fixture
def many(tmp_path, monkeypatch):
    """A folder with a segment for each of four sentences, which are too many to be verified at once."""
    monkeypatch.setattr(cache_folder, "_VERIFIED_AT_ONCE", 0)
    monkeypatch.setattr(cache_plan, "PART_BYTES", 1)
    open_cache(tmp_path).add(WordPieces.of(SENTENCES), CountingBert().load)
    assert len(segments(tmp_path)) == 4
    return tmp_path


def touch(*files):
    for file in files:
        os.utime(file, ns=(OLD, OLD))


def damage(file):
    data = file.read_bytes()
    file.write_bytes(data[:-3] + bytes([data[-3] ^ 8]) + data[-2:])
    touch(file)


def place_in(cache, file):
    """Return index and place of a sentence whose states are in *file*."""
    places = cache.locate(WordPieces.of(SENTENCES))
    [number] = [i for i, name in enumerate(cache._states.names) if name == file.name]
    index = int(np.flatnonzero(places[:, 0] == number)[0])
    return index, places[index]


def test_what_this_package_has_written_is_not_read_again(filled, verified, monkeypatch):  # noqa: F811
    read = []
    opener = open
    monkeypatch.setattr(
        tensor_files, "open", lambda file, mode: (read.append(file.suffix), opener(file, mode))[1], raising=False
    )
    cache = open_cache(filled)
    assert len(cache) == 4
    assert verified == []
    assert set(read) == {".index"}
    check(cache)
    assert verified == []


def test_a_few_copied_segments_are_verified_when_the_cache_is_opened_and_never_again(filled, verified):  # noqa: F811
    [file] = segments(filled)
    touch(file)
    for _ in range(2):
        check(open_cache(filled))
    assert verified == [file.name]
    (file.parent / STAMPS).unlink()
    check(open_cache(filled))
    assert verified == [file.name] * 2


def test_each_of_many_segments_is_verified_when_it_is_read_first(many, verified, caplog):
    caplog.set_level("INFO")
    touch(*segments(many))
    cache = open_cache(many)
    assert verified == []
    assert "4 segments, 0.0 GiB, have not been verified yet. Each is verified when it is read first" in caplog.text
    worker = pickle.loads(pickle.dumps(cache))
    check(cache)
    check(cache)
    assert sorted(verified) == [file.name for file in segments(many)]
    places = cache.locate(WordPieces.of(SENTENCES))
    for row, place in zip(SENTENCES, places):
        assert torch.equal(worker.states(place, len(row)), expected(row))  # by the stamps of the other process
    check(open_cache(many))
    assert len(verified) == 4


def test_a_segment_that_is_found_damaged_when_it_is_read_has_no_states_and_is_computed_anew(many, verified, caplog):
    bad, *others = segments(many)
    damage(bad)
    cache = open_cache(many)
    index, place = place_in(cache, bad)
    for _ in range(2):
        assert cache.states(place, len(SENTENCES[index])) is None
    assert verified == [bad.name]
    assert caplog.text.count(f"{bad} is damaged: it is removed, and its sentences are computed anew") == 1
    assert segments(many) == others
    again = open_cache(many)
    assert len(again) == 3
    bert = CountingBert()
    again.add(WordPieces.of(SENTENCES), bert.load)
    assert [batch.tolist() for batch in bert.batches] == [[SENTENCES[index].tolist()]]
    check(again)
    cache.add(WordPieces.of(SENTENCES), bert.load)  # in the process that met the damage, such as at the next epoch
    check(cache)


def be_a_folder(file):
    """Let the file give an error other than that it is missing, as a network disk may."""
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("change", [lambda file: file.unlink(), lambda file: file.write_bytes(b"torn"), be_a_folder])
def test_a_segment_that_is_gone_or_cut_in_the_middle_of_a_training_has_no_states(many, change):
    cache = open_cache(many)
    file = segments(many)[0]
    index, place = place_in(cache, file)
    worker = pickle.loads(pickle.dumps(cache))
    change(file)
    assert cache.states(place, len(SENTENCES[index])) is None
    assert worker.states(place, len(SENTENCES[index])) is None


def test_a_cache_of_the_version_before_is_read_as_it_is(filled):  # noqa: F811
    """It has neither index nor stamps."""
    [file] = segments(filled)
    for other in file.parent.iterdir():
        if other != file:
            other.unlink()
    touch(file)
    cache = open_cache(filled)
    assert len(cache) == 4
    check(cache)
    assert {path.suffix for path in file.parent.iterdir()} == {".safetensors", ".index", ".lock", ""}
    assert read_stamps(file.parent) == {file.name: (file.stat().st_size, OLD)}


def test_stamps_survive_lines_that_were_cut(tmp_path):
    stamp(tmp_path, "a", (5, OLD))
    with open(tmp_path / STAMPS, "ab") as file:
        file.write(b"b 7 1")
    stamp(tmp_path, "c", (6, OLD))
    stamp(tmp_path, "d", (8, OLD))
    with open(tmp_path / STAMPS, "ab") as file:
        file.write(b"e 7 1")
    assert read_stamps(tmp_path) == {"a": (5, OLD), "d": (8, OLD)}
    (tmp_path / STAMPS).write_bytes(b"\xff\x00\n a\nb x 1 .\n")
    assert read_stamps(tmp_path) == {}


def _read_with_few_files(path, keys, results):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    mapped_states.MOST_MAPS = 20
    cache = open_cache(path)
    places = cache._folder.find(keys)
    for _ in range(2):
        sums = [float(cache.states(place, 1).sum()) for place in places]
    with open("/proc/self/maps", encoding="utf-8") as maps:
        results.put((len(cache), sums, sum(".safetensors" in line for line in maps)))


def test_500_segments_are_read_with_64_open_files_and_few_maps(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    folder = open_cache(tmp_path).path
    keys = np.random.default_rng(1).integers(0, 256, (500, 16), dtype=np.uint8)
    for n, key in enumerate(keys):
        states = [np.full((1, 6), n, np.float32)]
        write_segment(folder, "0-of-1", key[None], np.array([1]), states, 6, np.dtype(np.float32))
    context = processes()
    results = context.SimpleQueue()
    reader = context.Process(target=_read_with_few_files, args=(tmp_path, keys, results))
    reader.start()
    number, sums, maps = results.get()
    reader.join(60)
    assert number == 500
    assert sums == [6.0 * n for n in range(500)]
    assert maps <= 20


def test_segments_that_have_changed_places_give_no_states_of_other_sentences(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_plan, "PART_BYTES", 1)
    sentences = [torch.tensor([2, 5, 3]), torch.tensor([2, 6, 3])]  # whose segments have the same size
    open_cache(tmp_path).add(WordPieces.of(sentences), CountingBert().load)
    one, other = segments(tmp_path)
    spare = one.rename(one.with_name("spare"))
    other.rename(one)
    spare.rename(other)
    touch(one, other)
    reader = CountingBert()
    cache = open_cache(tmp_path)
    cache.add(WordPieces.of(sentences), reader.load)
    check(cache, sentences)
    assert sum(map(len, reader.batches)) == len(sentences)


@pytest.mark.parametrize("name", ["read_header", "read_array", "checksum"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_segment_that_cannot_be_read_is_computed_anew_and_stays(many, monkeypatch, caplog, name, at_once):
    bad, *others = segments(many)
    touch(bad, *others)
    for index in bad.parent.glob("*.index"):
        index.unlink()
    if at_once:
        monkeypatch.setattr(cache_folder, "_VERIFIED_AT_ONCE", 2**30)
    with monkeypatch.context() as patch:
        unreadable(patch, name, bad)
        cache, bert = open_cache(many), CountingBert()
        if at_once or name != "checksum":
            assert f"{bad} cannot be read ([Errno 5] Input/output error): its sentences are comp" in caplog.text
            assert len(cache) == 3
        else:
            index, place = place_in(cache, bad)
            assert cache.states(place, len(SENTENCES[index])) is None
        cache.add(WordPieces.of(SENTENCES), bert.load)
        assert len(bert.batches) == 1
        check(cache)
    assert set(segments(many)) > {bad, *others}
    check(open_cache(many))
