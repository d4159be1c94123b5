"""Where the states of sentences are, by the sentences' keys, without a Python object for each sentence.

A key is a hash, so half of it, as a number, orders the keys and hardly ever falls together with that of another one.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from bert_fused_plugin.data import tensor_files
from bert_fused_plugin.data.word_pieces import KEY_BYTES

_CHUNK = 2**20  # keys that are looked up or merged at once
_COLUMNS = {"first": "<u8", "second": "<u8", "segment": "<u4", "start": "<u4"}


@dataclass(frozen=True, eq=False)
class KeyIndex:
    """Keys of sentences in the order of their first halves, in arrays that may be memory-mapped.

    A key that is in several segments is in the index as often.

    Attributes:
        names: the segments, and the size of their files in bytes.
        first: the first 8 bytes of each key as a number, ascending, (number of sentences,).
        second: the other 8 bytes.
        segment: the number of the segment among *names* that has the states.
        start: where the states begin in that segment.
    """

    names: List[Tuple[str, int]]
    first: NDArray[np.uint64]
    second: NDArray[np.uint64]
    segment: NDArray[np.uint32]
    start: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.first)

    def find(self, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each key whose halves are given, fastest for an ascending *first*; -1 for one not here."""
        rows = np.full(len(first), -1, dtype=np.int64)
        if not len(self):
            return rows
        at = np.searchsorted(self.first, first)
        asked = np.arange(len(first))
        while len(asked):  # once, but for keys that share their first half
            inside = at < len(self)
            at, asked = at[inside], asked[inside]
            same = self.first[at] == first[asked]
            at, asked = at[same], asked[same]
            found = self.second[at] == second[asked]
            rows[asked[found]] = at[found]
            at, asked = at[~found] + 1, asked[~found]
        return rows

    def rows_of(self, segments: NDArray[np.bool_]) -> int:
        """Return how many sentences those *segments* have, a mask of `names`."""
        if segments.all():
            return len(self)
        return sum(
            int(np.count_nonzero(segments[self.segment[start : start + _CHUNK]]))
            for start in range(0, len(self), _CHUNK)
        )


class SegmentKeys(NamedTuple):
    """The sentences of one segment.

    Attributes:
        name: the name of its file.
        size: the size of that file in bytes.
        keys: hashes of the sentences, (number of sentences, 16).
        starts: where the states of each begin.
    """

    name: str
    size: int
    keys: NDArray[np.uint8]
    starts: NDArray[np.uint32]


def halves(keys: NDArray[np.uint8]) -> Tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the two halves of *keys*, (number of sentences, 16), as numbers."""
    pairs = np.ascontiguousarray(keys).view("<u8").reshape(-1, KEY_BYTES // 8)
    return pairs[:, 0], pairs[:, 1]


def index_of_segments(segments: Sequence[SegmentKeys]) -> KeyIndex:
    """Return the index of *segments* in memory."""
    first, second = halves(np.concatenate([segment.keys for segment in segments]))
    order = np.argsort(first, kind="stable")
    numbers = np.repeat(np.arange(len(segments), dtype=np.uint32), [len(segment.starts) for segment in segments])
    starts = np.concatenate([segment.starts for segment in segments])
    names = [(segment.name, segment.size) for segment in segments]
    return KeyIndex(names, first[order], second[order], numbers[order], starts[order])


def write_index(final: Path, work: str, parts: Sequence[Tuple[KeyIndex, NDArray[np.bool_]]]) -> None:
    """Write one index of all *parts* into the file *final*; an interrupted process leaves no such file.

    Args:
        final: path of the new file.
        work: name of the work whose lock this process holds.
        parts: indexes, each with a mask of its segments, which says what is kept.
    """
    rows = sum(index.rows_of(kept) for index, kept in parts)
    names = json.dumps([pair for index, kept in parts for pair, keep in zip(index.names, kept) if keep])
    shapes: tensor_files.Shapes = {name: (np.dtype(dtype), (rows,)) for name, dtype in _COLUMNS.items()}
    with tensor_files.written_whole(
        final, work, shapes, lambda sums: {"segments": names, **{name: str(sums[name]) for name in _COLUMNS}}
    ) as writer:
        for columns in _merged(parts, rows):
            for name, values in zip(_COLUMNS, columns):
                writer.append(name, values)


def read_index(file: Path) -> Optional[KeyIndex]:
    """Return the index in *file*, memory-mapped, or None if the file is damaged.

    Raises:
        OSError: the file cannot be read.
    """
    header = tensor_files.read_header(file)
    if header is None or set(header.arrays) != set(_COLUMNS):
        return None
    places = [header.arrays[name] for name in _COLUMNS]
    if any(place.dtype != np.dtype(dtype) for place, dtype in zip(places, _COLUMNS.values())):
        return None
    sums = {name: str(tensor_files.checksum(file, header.arrays[name])) for name in _COLUMNS}
    if any(header.metadata.get(name) != value for name, value in sums.items()):
        return None
    try:
        names = [(str(name), int(size)) for name, size in json.loads(header.metadata["segments"])]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    data = tensor_files.map_file(file).numpy()
    return KeyIndex(names, *(data[place.start : place.end].view(place.dtype) for place in places))


def _merged(parts: Sequence[Tuple[KeyIndex, NDArray[np.bool_]]], rows: int) -> Iterator[Tuple[NDArray[Any], ...]]:
    """Yield the columns of the merged *parts* piece by piece, in order: keys are even, so pieces are about equal."""
    pieces = 1 + rows // _CHUNK
    bounds = [np.uint64(i * 2**64 // pieces) for i in range(1, pieces)]
    cuts = [[0, *np.searchsorted(index.first, np.array(bounds, np.uint64)).tolist(), len(index)] for index, _ in parts]
    new_numbers, total = [], 0
    for _, kept in parts:
        new_numbers.append((total + np.cumsum(kept) - 1).astype(np.uint32))
        total += int(kept.sum())
    for i in range(pieces):
        some = []
        for (index, kept), cut, numbers in zip(parts, cuts, new_numbers):
            piece = slice(cut[i], cut[i + 1])
            segment = index.segment[piece]
            keep = kept[segment]
            columns = (index.first[piece], index.second[piece], numbers[segment], index.start[piece])
            some.append([column[keep] for column in columns])
        together = [np.concatenate(column) for column in zip(*some)]
        order = np.argsort(together[0], kind="stable")
        yield tuple(column[order] for column in together)


def merge(parts: Sequence[Tuple[KeyIndex, NDArray[np.bool_]]]) -> KeyIndex:
    """Return one index of all *parts* in memory; each has a mask of its segments, which says what is kept."""
    rows = sum(index.rows_of(kept) for index, kept in parts)
    columns = [np.concatenate(pieces) for pieces in zip(*_merged(parts, rows))]
    names = [pair for index, kept in parts for pair, keep in zip(index.names, kept) if keep]
    return KeyIndex(names, *columns)
