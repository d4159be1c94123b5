"""The files of the feature cache: safetensors with a checksum, written whole, mapped into memory to read."""

import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from bert_fused_plugin.data.work_locks import if_free

KEY_BYTES = 16
SUFFIX = ".safetensors"
_UNFINISHED = ".unfinished"


def write_segment(directory: Path, tensors: Dict[str, NDArray[Any]], part: str) -> Path:
    """Write a new file in *directory* and return its path; what is interrupted leaves no file of that name.

    Args:
        directory: the folder.
        tensors: ``keys`` (sentences, 16), ``sizes`` (sentences,), ``states`` (N, D).
        part: of the work, whose turn this process has.
    """
    final = directory / f"{uuid.uuid4().hex}{SUFFIX}"
    unfinished = directory / f"{part}{_UNFINISHED}"
    try:
        with open(unfinished, "wb") as file:
            file.write(save(tensors, metadata={"crc32": str(_checksum(tensors))}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, final)
    finally:
        unfinished.unlink(missing_ok=True)
    return final


def remove_unfinished(directory: Path) -> None:
    """Remove what builds that were killed have left in *directory*; not what a process is writing."""
    for leftover in directory.glob(f"*{_UNFINISHED}"):
        with if_free(directory, leftover.stem) as free:
            if free:
                leftover.unlink(missing_ok=True)


def read_segment(file: Path, dim: int, dtype: "np.dtype[Any]") -> Optional[Dict[str, NDArray[Any]]]:
    """Return the tensors of a segment, or None if it is damaged."""
    try:
        header, base = _read_header(file)
        tensors = {name: _map(file, name) for name in ("keys", "sizes", "states")}
        keys, sizes, states = tensors["keys"], tensors["sizes"], tensors["states"]
        sound = (
            file.stat().st_size == base + max(header[name]["data_offsets"][1] for name in tensors)
            and keys.shape == (len(sizes), KEY_BYTES)
            and states.shape == (int(sizes.sum()), dim)
            and states.dtype == dtype
            and header["__metadata__"]["crc32"] == str(_checksum(tensors))
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return tensors if sound else None


def map_states(file: Path) -> NDArray[Any]:
    """Return the states of a segment, (N, D), memory-mapped."""
    return _map(file, "states")


def _map(file: Path, name: str) -> NDArray[Any]:
    """Return tensor *name* of a safetensors *file*, memory-mapped."""
    header, base = _read_header(file)
    entry = header[name]
    dtype = np.dtype({"U8": "u1", "I32": "<i4", "F16": "<f2", "F32": "<f4"}[entry["dtype"]])
    (begin, end), shape = entry["data_offsets"], tuple(entry["shape"])
    if base + end > file.stat().st_size or end - begin != dtype.itemsize * int(np.prod(shape)):
        raise ValueError("size")
    # copy-on-write: torch wants memory that may be written, the file stays as it is
    return np.memmap(file, dtype=dtype, mode="c", offset=base + begin, shape=shape)


def _read_header(file: Path) -> Tuple[Dict[str, Any], int]:
    """Return the header of a safetensors *file* and where the data begins, with its size checked."""
    with open(file, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= 100_000:
            raise ValueError("header")
        header: Dict[str, Any] = json.loads(stream.read(length))
    return header, 8 + length


def _checksum(tensors: Dict[str, NDArray[Any]]) -> int:
    crc = 0
    for name in ("keys", "sizes", "states"):
        crc = zlib.crc32(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data, crc)
    return crc
