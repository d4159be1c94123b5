"""The files of the feature cache: safetensors with a checksum, which are written whole and mapped into memory.

The checksum is our own, since safetensors has none.
"""

import os
import uuid
import zlib
from pathlib import Path
from typing import Any, Dict, Optional

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from bert_fused_plugin.data.word_pieces import KEY_BYTES
from bert_fused_plugin.data.work_locks import try_lock
from bert_fused_plugin.errors import BertFusedError

SUFFIX = ".safetensors"
_UNFINISHED = ".unfinished"
_NAMES = ("keys", "sizes", "states")


def in_number_format(states: NDArray[Any], dtype: "np.dtype[Any]", directory: str) -> NDArray[Any]:
    """Return the computed *states* in the number format *dtype*.

    Raises:
        BertFusedError: some of them are not finite there; the message names the cache's *directory*.
    """
    with np.errstate(over="ignore"):
        converted: NDArray[Any] = states.astype(dtype)
    if np.isfinite(converted).all():
        return converted
    if not np.isfinite(states).all():
        reason = "are not finite, even in single precision; give another --bert-model, whose weights are sound"
    else:
        reason = (
            "are beyond float16, whose largest number is 65,504; give --bert-cache-dtype fp32, and train with --bf16 "
            "or in single precision, since --fp16 cannot hold them either"
        )
    raise BertFusedError(f"--bert-cache {directory}: some of BERT's states {reason}")


def write_segment(directory: Path, tensors: Dict[str, NDArray[Any]], part: str) -> Path:
    """Write a new segment in *directory* and return its path; an interrupted process leaves no segment.

    Args:
        directory: folder of the segments.
        tensors: ``keys`` (sentences, 16), ``sizes`` (sentences,), ``states`` (word pieces, dim).
        part: name of the part of the work whose lock this process holds.
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
    """Remove the unfinished files of killed processes from *directory*, but none that a process is writing."""
    for leftover in directory.glob(f"*{_UNFINISHED}"):
        with try_lock(directory, leftover.stem) as locked:
            if locked:
                leftover.unlink(missing_ok=True)


def read_segment(file: Path, dim: int, dtype: "np.dtype[Any]") -> Optional[Dict[str, NDArray[Any]]]:
    """Return the tensors of a segment, or None if it is damaged.

    Args:
        file: path of the segment.
        dim: the width of the states.
        dtype: number format of the states.
    """
    try:
        with safe_open(file, framework="pt") as segment:  # which checks the sizes of file and tensors
            tensors = {name: segment.get_tensor(name).numpy() for name in _NAMES}
            checksum = segment.metadata()["crc32"]
        keys, sizes, states = tensors["keys"], tensors["sizes"], tensors["states"]
        sound = (
            keys.shape == (len(sizes), KEY_BYTES)
            and states.shape == (int(sizes.sum()), dim)
            and states.dtype == dtype
            and checksum == str(_checksum(tensors))
        )
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return tensors if sound else None


def map_states(file: Path) -> Tensor:
    """Return the states of a segment, (word pieces, dim), memory-mapped.

    safetensors maps the file copy-on-write for PyTorch (not for numpy, for which it reads it).
    """
    with safe_open(file, framework="pt") as segment:
        states: Tensor = segment.get_tensor("states")
    return states


def _checksum(tensors: Dict[str, NDArray[Any]]) -> int:
    crc = 0
    for name in _NAMES:
        crc = zlib.crc32(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data, crc)
    return crc
