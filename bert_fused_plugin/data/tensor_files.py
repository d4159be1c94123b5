"""Files of named arrays in the format of safetensors, which are written in a stream, and of which parts are read.

The package safetensors writes only what is in memory as a whole, and BERT's states of a corpus are not.
"""

import errno
import json
import os
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

UNFINISHED = ".unfinished"

_BLOCK = 2**22  # bytes that are read at once
_LONGEST_HEADER = 2**26
_DTYPES = {"U8": "u1", "I32": "<i4", "U32": "<u4", "U64": "<u8", "F16": "<f2", "F32": "<f4"}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}

Shapes = Dict[str, Tuple["np.dtype[Any]", Tuple[int, ...]]]
Metadata = Dict[str, str]


class Place(NamedTuple):
    """Where an array is in a file."""

    dtype: "np.dtype[Any]"
    shape: Tuple[int, ...]
    start: int
    end: int


class Header(NamedTuple):
    """What a file says about its arrays; a `read_header` has checked that the file is as long as it says."""

    arrays: Dict[str, Place]
    metadata: Metadata


def read_header(file: Path) -> Optional[Header]:
    """Return the header of *file*, or None if it is no file of arrays or has another length than it says.

    Raises:
        OSError: the file cannot be read.
    """
    with open(file, "rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        length = int.from_bytes(opened.read(8), "little")
        if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
            return None
        text = opened.read(length)
    try:
        entries = json.loads(text)
        metadata = entries.pop("__metadata__")
        arrays = {name: _place(entry, 8 + length) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    end = 8 + length
    for place in sorted(arrays.values(), key=lambda place: place.start):
        if place.start != end or min(place.shape, default=0) < 0:
            return None
        if place.end - place.start != int(np.prod(place.shape, dtype=object)) * place.dtype.itemsize:
            return None
        end = place.end
    strings = isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    return Header(arrays, metadata) if end == size and strings else None


def read_array(file: Path, place: Place) -> NDArray[Any]:
    """Return one array of *file* in memory."""
    count = (place.end - place.start) // place.dtype.itemsize
    return np.fromfile(file, place.dtype, count, offset=place.start).reshape(place.shape)


def checksum(file: Path, *places: Place) -> int:
    """Return the CRC-32 of the bytes of arrays of *file*, one array after the other."""
    crc = 0
    with open(file, "rb") as opened:
        for place in places:
            opened.seek(place.start)
            left = place.end - place.start
            while left:
                block = opened.read(min(left, _BLOCK))
                if not block:  # the file has become shorter
                    return -1
                crc = zlib.crc32(block, crc)
                left -= len(block)
    return crc


def map_file(file: Path) -> Tensor:
    """Return the bytes of *file*, (size,), memory-mapped, without a file that stays open.

    What is written to them stays in this process, and the file does not change: PyTorch wants memory that may be
    written.  numpy's maps would each keep a file open.

    Raises:
        OSError: the file cannot be read or mapped.
    """
    size = file.stat().st_size
    try:
        storage: Any = torch.UntypedStorage.from_file(str(file), False, size)
    except RuntimeError as error:  # PyTorch's error says why, but only in its text
        raise OSError(errno.EIO, f"it cannot be mapped: {error}", str(file)) from error
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))


class Writer:
    """Appends to the arrays of a new file.

    Attributes:
        checksums: the CRC-32 of each array, and under ``""`` that of everything in the order in which it was written.
    """

    def __init__(self, file: Any, places: Dict[str, Place]) -> None:
        self._file = file
        self._places = places
        self._position = {name: place.start for name, place in places.items()}
        self.checksums: Dict[str, int] = {"": 0, **dict.fromkeys(places, 0)}

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Append *values* to the array *name*."""
        data = np.ascontiguousarray(values, self._places[name].dtype).reshape(-1).view(np.uint8).data
        if self._file.tell() != self._position[name]:
            self._file.seek(self._position[name])
        self._file.write(data)
        self._position[name] += data.nbytes
        for key in ("", name):
            self.checksums[key] = zlib.crc32(data, self.checksums[key])

    def check_complete(self) -> None:
        """Check that each array has as many values as the header says."""
        assert self._position == {name: place.end for name, place in self._places.items()}


@contextmanager
def written_whole(
    final: Path, work: str, shapes: Shapes, metadata: Callable[[Dict[str, int]], Metadata]
) -> Iterator[Writer]:
    """Write the file *final* through the writer that is yielded; an interrupted process leaves no such file.

    Args:
        final: path of the new file.
        work: name of the work whose lock this process holds; what is not finished has this name.
        shapes: number format and shape of each array, in the order of the file.
        metadata: a function of the `Writer.checksums` that returns what else the header says; the length of its
            values must not grow with the checksums, beyond that of the largest ones.
    """
    unfinished = final.parent / f"{work}{UNFINISHED}"
    largest = dict.fromkeys(["", *shapes], 2**32 - 1)
    length = -(-len(_header_text(_places(shapes, 0), metadata(largest), 0)) // 8) * 8
    places = _places(shapes, 8 + length)
    try:
        with open(unfinished, "wb") as file:
            file.write(bytes(8 + length))
            writer = Writer(file, places)
            yield writer
            writer.check_complete()
            header = _header_text(places, metadata(writer.checksums), 8 + length)
            file.seek(0)
            file.write(length.to_bytes(8, "little") + header.ljust(length))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, final)
    finally:
        unfinished.unlink(missing_ok=True)


def _places(shapes: Shapes, start: int) -> Dict[str, Place]:
    places = {}
    for name, (dtype, shape) in shapes.items():
        end = start + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        places[name] = Place(dtype, shape, start, end)
        start = end
    return places


def _header_text(places: Dict[str, Place], metadata: Metadata, origin: int) -> bytes:
    entries: Dict[str, Any] = {"__metadata__": metadata}
    for name, place in places.items():
        offsets = [place.start - origin, place.end - origin]
        entries[name] = {"dtype": _NAMES[place.dtype], "shape": list(place.shape), "data_offsets": offsets}
    return json.dumps(entries, separators=(",", ":")).encode()


def _place(entry: Dict[str, Any], origin: int) -> Place:
    start, end = (origin + int(offset) for offset in entry["data_offsets"])
    return Place(np.dtype(_DTYPES[entry["dtype"]]), tuple(int(size) for size in entry["shape"]), start, end)
