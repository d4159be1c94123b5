"""The segments of the feature cache: safetensors files with a checksum, which are written whole and never changed.

The checksum is our own, since safetensors has none.
"""

import os
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Iterable, NamedTuple, Optional, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bert_fused_plugin.data import tensor_files
from bert_fused_plugin.data.cache_stamps import CLOCK
from bert_fused_plugin.data.tensor_files import UNFINISHED, Place
from bert_fused_plugin.data.word_pieces import KEY_BYTES
from bert_fused_plugin.data.work_locks import try_lock

SUFFIX = ".safetensors"

_DTYPES = {np.dtype(np.float16): torch.float16, np.dtype(np.float32): torch.float32}


class Segment(NamedTuple):
    """Where in its file a segment has its arrays, and what their checksum must be."""

    keys: Place
    sizes: Place
    states: Place
    checksum: str


def write_segment(
    directory: Path, part: str, keys: NDArray[np.uint8], sizes: NDArray[Any], states: Iterable[NDArray[Any]],
    dim: int, dtype: "np.dtype[Any]",
) -> Path:  # fmt: skip
    """Write a new segment in *directory* and return its path; an interrupted process leaves no segment.

    The time of the file's last change is set to a little before, so that it can have a stamp at once, and any later
    change gives it another time.

    Args:
        directory: folder of the segments.
        part: name of the part of the work whose lock this process holds.
        keys: hashes of the sentences, (number of sentences, 16).
        sizes: the number of word pieces of each sentence.
        states: the states of these word pieces, in arrays (word pieces, dim), which are written as they come.
        dim: the width of the states.
        dtype: number format of the states.
    """
    final = directory / f"{uuid.uuid4().hex}{SUFFIX}"
    shapes: tensor_files.Shapes = {
        "keys": (np.dtype(np.uint8), keys.shape),
        "sizes": (np.dtype(np.int32), sizes.shape),
        "states": (dtype, (int(sizes.sum()), dim)),
    }

    def metadata(checksums: Dict[str, int]) -> tensor_files.Metadata:
        return {"crc32": str(checksums[""]), "file": _place_of(final)}

    with tensor_files.written_whole(final, part, shapes, metadata) as writer:
        writer.append("keys", keys)
        writer.append("sizes", sizes)
        for some in states:
            writer.append("states", some)
    changed = time.time_ns() - CLOCK
    os.utime(final, ns=(changed, changed))
    return final


def remove_unfinished(directory: Path) -> int:
    """Remove the unfinished files of killed processes from *directory*, but none that a process is writing.

    Returns:
        The number of bytes that they had.
    """
    size = 0
    for leftover in directory.glob(f"*{UNFINISHED}"):
        with try_lock(directory, leftover.stem) as locked:
            if locked and leftover.exists():
                size += leftover.stat().st_size
                leftover.unlink()
    return size


def open_segment(file: Path, dim: Optional[int] = None, dtype: "Optional[np.dtype[Any]]" = None) -> Optional[Segment]:
    """Return where a segment has its arrays, or None if its header shows damage, or is that of another segment.

    An index knows a segment by its name, and a folder is that of one BERT.  A segment that somebody has renamed, or
    copied from the folder of another BERT, would give the states of other sentences, or of another BERT.

    Args:
        file: path of the segment.
        dim: the width that the states must have; default: any.
        dtype: the number format that the states must have; default: any.

    Raises:
        OSError: the file cannot be read.
    """
    header = tensor_files.read_header(file)
    if header is None or set(header.arrays) != {"keys", "sizes", "states"} or "crc32" not in header.metadata:
        return None
    if header.metadata.get("file", _place_of(file)) != _place_of(file):  # old segments do not say it
        return None
    keys, sizes, states = (header.arrays[name] for name in ("keys", "sizes", "states"))
    sound = (
        (keys.dtype, sizes.dtype) == (np.dtype(np.uint8), np.dtype(np.int32))
        and keys.shape == (*sizes.shape, KEY_BYTES)
        and len(states.shape) == 2
        and dim in (None, states.shape[1])
        and states.dtype in (_DTYPES if dtype is None else (dtype,))
    )
    return Segment(keys, sizes, states, header.metadata["crc32"]) if sound else None


def read_keys(file: Path, segment: Segment) -> Optional[Tuple[NDArray[np.uint8], NDArray[np.uint32]]]:
    """Return the keys of the sentences and the places where their states begin; None if these do not fit the states."""
    keys = tensor_files.read_array(file, segment.keys)
    sizes = tensor_files.read_array(file, segment.sizes)
    ends = np.cumsum(sizes, dtype=np.int64)
    if (sizes < 0).any() or (int(ends[-1]) if len(ends) else 0) != segment.states.shape[0]:
        return None
    return keys, (ends - sizes).astype(np.uint32)


def is_sound(file: Path, segment: Segment) -> bool:
    """Return whether all bytes of a segment are as they were written; this reads the whole file."""
    checksum = tensor_files.checksum(file, segment.keys, segment.sizes, segment.states)
    return str(checksum) == segment.checksum and read_keys(file, segment) is not None


def map_states(file: Path, segment: Segment) -> Tensor:
    """Return the states of a segment, (word pieces, dim), memory-mapped, without a file that stays open."""
    place = segment.states
    return tensor_files.map_file(file)[place.start : place.end].view(_DTYPES[place.dtype]).view(place.shape)


def _place_of(file: Path) -> str:
    """Return the folder and the name of a segment, as it notes them in itself."""
    return f"{file.parent.name}/{file.name}"
