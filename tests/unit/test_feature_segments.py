"""The files of the feature cache, one by one."""

import json

import numpy as np
import pytest
import torch

from bert_fused_plugin.data.feature_segments import map_states, read_segment, remove_unfinished, write_segment
from bert_fused_plugin.data.work_locks import try_lock

D = 5
HALF = np.dtype(np.float16)


@pytest.fixture
def tensors():
    states = np.arange(6 * D, dtype=np.float16).reshape(6, D)
    return {
        "keys": np.arange(48, dtype=np.uint8).reshape(3, 16),
        "sizes": np.array([3, 2, 1], np.int32),
        "states": states,
    }


def test_a_segment_comes_back(tmp_path, tensors):
    file = write_segment(tmp_path, tensors, "0-of-1")
    assert list(tmp_path.iterdir()) == [file]
    found = read_segment(file, D, HALF)
    assert found is not None
    for name, expected in tensors.items():
        assert found[name].dtype == expected.dtype
        assert np.array_equal(found[name], expected)
    assert torch.equal(map_states(file), torch.from_numpy(tensors["states"]))


@pytest.mark.parametrize(("dim", "dtype"), [(D + 1, HALF), (D, np.dtype(np.float32))])
def test_states_of_another_width_or_format_are_damage(tmp_path, tensors, dim, dtype):
    assert read_segment(write_segment(tmp_path, tensors, "0-of-1"), dim, dtype) is None


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": np.array([3, 2, 2], np.int32)},
        {"sizes": np.array([3, 3], np.int32)},
        {"keys": np.zeros((3, 15), np.uint8)},
    ],
    ids=["one state too few", "one key too many", "short keys"],
)
def test_tensors_that_do_not_fit_each_other_are_damage(tmp_path, tensors, change):
    assert read_segment(write_segment(tmp_path, {**tensors, **change}, "0-of-1"), D, HALF) is None


@pytest.mark.parametrize("metadata", [None, {}, {"crc32": "5"}])
def test_a_file_without_the_right_checksum_is_damage(tmp_path, tensors, metadata):
    file = write_segment(tmp_path, tensors, "0-of-1")
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert int(header.pop("__metadata__")["crc32"]) > 5
    header = {**header, **({} if metadata is None else {"__metadata__": metadata})}
    text = json.dumps(header).encode().ljust(size)
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    assert read_segment(file, D, HALF) is None


def test_states_may_be_written_to_and_the_file_stays(tmp_path, tensors):
    """PyTorch wants memory that may be written."""
    file = write_segment(tmp_path, tensors, "0-of-1")
    data = file.read_bytes()
    map_states(file).zero_()
    assert file.read_bytes() == data


def test_unfinished_files_of_others_are_removed_unless_they_are_at_work(tmp_path):
    left, writing = tmp_path / "0-of-2.unfinished", tmp_path / "1-of-2.unfinished"
    left.touch()
    writing.touch()
    with try_lock(tmp_path, "1-of-2"):
        remove_unfinished(tmp_path)
    assert not left.exists()
    assert writing.exists()
