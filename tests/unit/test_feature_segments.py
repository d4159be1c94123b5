"""The files of the feature cache, one by one."""

import json
import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from bert_fused_plugin.data.feature_segments import (
    is_sound,
    map_states,
    open_segment,
    read_keys,
    remove_unfinished,
    write_segment,
)
from bert_fused_plugin.data.tensor_files import map_file
from bert_fused_plugin.data.work_locks import try_lock

D = 5
HALF = np.dtype(np.float16)
KEYS = np.arange(48, dtype=np.uint8).reshape(3, 16)
SIZES = np.array([3, 2, 1])
STATES = np.arange(6 * D, dtype=np.float16).reshape(6, D)


def write(folder, keys=KEYS, sizes=SIZES, states=STATES, dim=D, dtype=HALF):
    return write_segment(folder, "0-of-1", keys, sizes, [states[:4], states[4:]], dim, dtype)


def test_a_segment_comes_back(tmp_path):
    file = write(tmp_path)
    assert list(tmp_path.iterdir()) == [file]
    segment = open_segment(file, D, HALF)
    keys, starts = read_keys(file, segment)
    assert np.array_equal(keys, KEYS)
    assert starts.tolist() == [0, 3, 5]
    assert torch.equal(map_states(file, segment), torch.from_numpy(STATES))
    assert is_sound(file, segment)
    assert open_segment(file) == segment


def test_safetensors_reads_a_segment(tmp_path):
    with safe_open(write(tmp_path), framework="np") as segment:
        assert np.array_equal(segment.get_tensor("keys"), KEYS)
        assert segment.get_tensor("sizes").tolist() == SIZES.tolist()
        assert segment.get_tensor("sizes").dtype == np.int32
        assert np.array_equal(segment.get_tensor("states"), STATES)


def test_a_segment_is_written_as_its_states_come(tmp_path):
    seen = []

    def batches():
        for state in STATES:
            seen.append([file.stat().st_size for file in tmp_path.glob("*.unfinished")])
            yield state[None]

    write_segment(tmp_path, "0-of-1", KEYS, SIZES, batches(), D, HALF)
    assert len(seen) == 6
    assert all(len(sizes) == 1 for sizes in seen)


@pytest.mark.parametrize(("dim", "dtype"), [(D + 1, HALF), (D, np.dtype(np.float32))])
def test_states_of_another_width_or_format_are_damage(tmp_path, dim, dtype):
    assert open_segment(write(tmp_path), dim, dtype) is None


def rewritten(file, change):
    """Write *file* anew with a header that *change* has changed."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    return file


@pytest.mark.parametrize("metadata", [None, {}, {"crc32": 5}, [1]])
def test_a_file_without_a_checksum_is_damage(tmp_path, metadata):
    def change(header):
        del header["__metadata__"]
        if metadata is not None:
            header["__metadata__"] = metadata

    assert open_segment(rewritten(write(tmp_path), change), D, HALF) is None


def test_a_file_with_another_checksum_is_not_sound(tmp_path):
    file = rewritten(write(tmp_path), lambda header: header["__metadata__"].update(crc32="5"))
    assert not is_sound(file, open_segment(file, D, HALF))


@pytest.mark.parametrize("place", ["other.safetensors", "../of-another-bert/{name}"])
def test_a_segment_at_the_place_of_another_one_is_damage(tmp_path, place):
    """Its index would give the states of other sentences, or of another BERT."""
    file = write(tmp_path)
    moved = (file.parent / place.format(name=file.name)).resolve()
    moved.parent.mkdir(exist_ok=True)
    assert open_segment(file.rename(moved), D, HALF) is None


def test_a_segment_of_earlier_versions_does_not_say_its_place(tmp_path):
    file = rewritten(write(tmp_path), lambda header: header["__metadata__"].pop("file"))
    assert is_sound(file, open_segment(file, D, HALF))


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("keys", {"shape": [3, 15], "dtype": "U8"}),
        ("keys", {"shape": [2, 24], "dtype": "U8"}),
        ("sizes", {"shape": [12], "dtype": "U8"}),
        ("states", {"shape": [60], "dtype": "U8"}),
        ("states", {"shape": [-6, -D], "dtype": "F16"}),
        ("states", {"shape": [6, D], "dtype": "BF16"}),
        ("states", {"shape": [6, D], "dtype": "F16", "data_offsets": [0, 60]}),
    ],
)
def test_arrays_that_do_not_fit_each_other_or_the_file_are_damage(tmp_path, name, entry):
    file = rewritten(write(tmp_path), lambda header: header[name].update(entry))
    assert open_segment(file) is None


@pytest.mark.parametrize("sizes", [[3, 2, 2], [3, -1, 4], [3, 2, 0]])
def test_sizes_that_do_not_fit_the_states_are_damage(tmp_path, sizes):
    file = write(tmp_path)
    segment = open_segment(file, D, HALF)
    with open(file, "r+b") as opened:
        opened.seek(segment.sizes.start)
        opened.write(np.array(sizes, "<i4").tobytes())
    assert read_keys(file, segment) is None


def test_states_may_be_written_to_and_the_file_stays(tmp_path):
    """PyTorch wants memory that may be written."""
    file = write(tmp_path)
    data = file.read_bytes()
    map_states(file, open_segment(file)).zero_()
    assert file.read_bytes() == data


def test_a_map_keeps_no_file_open(tmp_path):
    file = write(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    maps = [map_states(file, open_segment(file)) for _ in range(5)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(maps) == 5


def test_too_little_address_space_is_an_error_of_the_system(tmp_path):
    """As `ulimit -v` of a cluster leaves it; PyTorch raises a RuntimeError."""
    file = tmp_path / "large"
    with open(file, "wb") as opened:
        os.truncate(opened.fileno(), 2**32)  # which takes no room on the disk
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, limits[1]))
    try:
        with pytest.raises(OSError, match=r"Cannot allocate memory.*/large'"):
            map_file(file)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_later_change_gives_the_file_another_time(tmp_path):
    file = write(tmp_path)
    assert time.time() - file.stat().st_mtime > 5


def test_unfinished_files_of_others_are_removed_unless_they_are_at_work(tmp_path):
    left, writing = tmp_path / "0-of-2.unfinished", tmp_path / "1-of-2.unfinished"
    left.write_bytes(b"torn")
    writing.touch()
    with try_lock(tmp_path, "1-of-2"):
        assert remove_unfinished(tmp_path) == 4
    assert not left.exists()
    assert writing.exists()
