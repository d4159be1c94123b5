"""The files in which the word pieces of a corpus are kept: one header and three arrays, mapped into memory.

A file holds a header of `_HEADER` bytes, the offsets (int64), the keys (16 bytes a sentence) and the word pieces
(int32), in the byte order of the machine, which is part of the file's name.  A file is written under another name, and
renamed when it is whole.  It is never changed.
"""

import io
import json
import mmap
import os
import uuid
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from bert_fused_plugin.data.word_pieces import KEY_BYTES, WordPieces

_HEADER = 4096
_BLOCK = 2**22  # bytes that are verified together
_MAGIC = "word pieces of bert_fused_plugin"


class MappedWordPieces(WordPieces):
    """Word pieces in a file, which all processes of a machine have in memory once.

    Args:
        file: path of a file that `join_parts` wrote.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._header = header = _read_header(file)
        sentences, size = header["sentences"], header["pieces"]
        with file.open("rb") as source:
            mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        offsets, keys, pieces = _starts(sentences)
        super().__init__(
            np.frombuffer(mapped, np.int32, size, pieces),
            np.frombuffer(mapped, np.int64, sentences + 1, offsets),
            header["num_truncated"],
            header["num_context_cut"],
        )
        self.keys = np.frombuffer(mapped, np.uint8, sentences * KEY_BYTES, keys).reshape(-1, KEY_BYTES)

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        """Return a copy of the word-piece ids of sentence *index*, (L,); PyTorch warns of arrays that are read-only."""
        return super().__getitem__(index).copy()

    def __reduce__(self) -> Tuple[Any, ...]:
        # another process maps the file by itself, unless somebody has deleted it while this process keeps its map
        try:
            if _read_header(self.file) == self._header:
                return (MappedWordPieces, (self.file,))
        except (OSError, ValueError):
            pass
        return (WordPieces, (self.pieces, self.offsets, self.num_truncated, self.num_context_cut))


def map_sound(file: Path) -> Optional[MappedWordPieces]:
    """Return the word pieces in *file*, or None if there is no such file, or it is damaged.

    Only what it holds can show that a file is damaged.

    The whole file is read for its checksums.  This takes about 0.1 seconds for a million sentences, which is little
    beside the time that they are trained on, and it brings the file into memory in order.

    Raises:
        OSError: the file cannot be read or mapped, which may be for a moment only.
    """
    try:
        header = _read_header(file)
        starts = [*_starts(header["sentences"]), file.stat().st_size]
        with file.open("rb") as source:
            sound = starts[-1] == starts[-2] + 4 * header["pieces"] and header["crc32"] == [
                _checksum(source, start, end) for start, end in zip(starts, starts[1:])
            ]
        return MappedWordPieces(file) if sound else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_part(file: Path, part: WordPieces) -> None:
    """Write *part* as *file*, whole, with a checksum: what is made of the parts has a right one, whatever they hold."""
    counts = np.array([part.num_truncated, part.num_context_cut], dtype=np.int64)
    arrays = io.BytesIO()
    for array in (part.sizes.astype(np.int32), part.keys, part.pieces, counts):
        np.save(arrays, array)
    with _whole(file, file.parent) as target:
        target.write(_checksum_bytes(arrays.getvalue()))
        target.write(arrays.getvalue())


def join_parts(file: Path, folder: Path, parts: Iterable[Path], sentences: int) -> None:
    """Write *file* from all of its *parts*, in order, by way of a file in *folder*; memory holds one part at a time.

    Raises:
        ValueError: a part is damaged, or they do not have that number of *sentences*.
    """
    starts = [*_starts(sentences)]
    checksums, done, size, counts = [0, 0, 0], 0, 0, np.zeros(2, dtype=np.int64)
    with _whole(file, folder) as target:
        for number, path in enumerate(parts):
            lengths, keys, pieces, part_counts = _read_part(path)
            ends = size + np.cumsum(lengths, dtype=np.int64)
            offsets = ends if number else np.concatenate([np.zeros(1, dtype=np.int64), ends])
            for i, array in enumerate((offsets, keys, pieces)):
                target.seek(starts[i])
                target.write(array.data)
                starts[i] += array.nbytes
                checksums[i] = zlib.crc32(array.data, checksums[i])
            done, size, counts = done + len(lengths), size + len(pieces), counts + part_counts
        if done != sentences:
            raise ValueError(f"the parts have {done} sentences, and not {sentences}")
        header = {"sentences": sentences, "pieces": size, "crc32": checksums}
        header.update(num_truncated=int(counts[0]), num_context_cut=int(counts[1]))
        target.seek(0)
        target.write(_header_text(header))


def _read_part(path: Path) -> List[NDArray[Any]]:
    with path.open("rb") as file:
        checksum, data = file.read(4), file.read()
    if checksum != _checksum_bytes(data):
        raise ValueError(f"{path} is damaged")
    source = io.BytesIO(data)
    return [np.load(source, allow_pickle=False) for _ in range(4)]


def _checksum_bytes(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


@contextmanager
def _whole(file: Path, folder: Path) -> Iterator[BinaryIO]:
    """Open a file for writing in *folder*, under a name of its own; it becomes *file* when all of it is on the disk."""
    unfinished = folder / f"{uuid.uuid4().hex}.unfinished"  # locks may not hold between machines
    try:
        with unfinished.open("wb") as target:
            yield target
            target.flush()
            os.fsync(target.fileno())
        os.replace(unfinished, file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _starts(sentences: int) -> Tuple[int, int, int]:
    """Return where the offsets, the keys and the word pieces of so many *sentences* begin."""
    keys = _HEADER + 8 * (sentences + 1)
    return _HEADER, keys, keys + KEY_BYTES * sentences


def _header_text(header: Dict[str, Any]) -> bytes:
    text = json.dumps(header)
    return f"{_MAGIC}\n{zlib.crc32(text.encode())}\n{text}\n".encode().ljust(_HEADER)


def _read_header(file: Path) -> Dict[str, Any]:
    with file.open("rb") as source:
        data = source.read(_HEADER)
    header: Dict[str, Any] = json.loads(data.split(b"\n")[2] if data.count(b"\n") == 3 else b"{}")
    if data != _header_text(header):
        raise ValueError(f"{file} has no sound header")
    return header


def _checksum(source: BinaryIO, start: int, end: int) -> int:
    source.seek(start)
    crc = 0
    while start < end:
        block = source.read(min(_BLOCK, end - start))
        if not block:
            return -1
        crc, start = zlib.crc32(block, crc), start + len(block)
    return crc
