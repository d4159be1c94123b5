"""The indexes of a folder of the feature cache, which all processes map, and what no file covers yet.

An index is a file that covers many segments.  It is written whole and never changed, like a segment, and is of no use
for a segment that is gone or has another size.  Small indexes are merged to larger ones, so that there are few, and no
sentence is written often.
"""

import logging
import os
import tempfile
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Container, Dict, List, Optional, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from bert_fused_plugin.data.key_index import (
    KeyIndex,
    SegmentKeys,
    halves,
    index_of_segments,
    merge,
    read_index,
    write_index,
)
from bert_fused_plugin.data.work_locks import try_lock

logger = logging.getLogger(__name__)

INDEX_SUFFIX = ".index"

ROWS = 2**19  # sentences that are looked up at once, and of which a process has the index in its memory

_WORK = "index"
_MERGED = 4  # a new index takes up those that have at most so many times its sentences


@dataclass(frozen=True, eq=False)
class _Part:
    """An index, with the numbers that its segments have in this process, -1 for one that is not as it was.

    It is in a *file* of the folder; or this process alone has it, in its memory or, *mapped*, in a file without a name.
    """

    index: KeyIndex
    numbers: NDArray[np.int32]
    file: Optional[str] = None
    mapped: bool = True


class CacheIndex:
    """Where the states of sentences are, in the segments of one folder.

    Args:
        path: the folder.
        names: the segments by their numbers; this object adds new ones.
    """

    def __init__(self, path: Path, names: List[str]) -> None:
        self.names = names
        self._path = path
        self._numbers = {name: number for number, name in enumerate(names)}
        self._there: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._parts: List[_Part] = []
        self._shared = os.access(path, os.W_OK)  # whether this process writes the indexes of the folder
        self._private = False  # whether it has said that it makes an index of its own

    def __len__(self) -> int:
        """The number of sentences; one that is in several segments counts as often."""
        return sum(part.index.rows_of(mask) for part, mask in zip(self._parts, self._masks(self._parts)))

    @property
    def covered(self) -> Set[str]:
        """The names of the segments whose sentences are found."""
        return {name for part in self._parts for (name, _), n in zip(part.index.names, part.numbers) if n >= 0}

    def find(self, keys: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return number of segment, and place in it, for each of *keys*: (number of sentences, 2), -1 if nowhere."""
        places = np.full((len(keys), 2), -1, dtype=np.int32)
        for start in range(0, len(keys), ROWS):
            self._find(keys[start : start + ROWS], places[start : start + ROWS])
        return places

    def update(self, files: Dict[str, int]) -> None:
        """Take up the indexes in the folder, for the segments that are there: *files*, {name: size in bytes}."""
        found = {}
        known = {part.file: part for part in self._parts if part.file is not None}
        for name in sorted(name for name in os.listdir(self._path) if name.endswith(INDEX_SUFFIX)):
            part = known.get(name) or self._open(name, files)
            if part is not None:
                found[name] = part
        own = [part for part in self._parts if part.file is None]
        self._parts = list(found.values())
        if set(found) - set(known):  # which may cover what this process has beside them
            covered = self.covered
            own = [part for part in own if not covered.issuperset(name for name, _ in part.index.names)]
        self._parts += own
        self.set_there(files)

    def set_there(self, files: Container[str]) -> None:
        """Use only those segments that are among *files*."""
        self._there = np.fromiter((name in files for name in self.names), bool, len(self.names))

    def add(self, segments: Sequence[SegmentKeys]) -> None:
        """Take up *segments* that no index covers; this process then has their index in its memory."""
        index = index_of_segments(segments)
        own = [part for part in self._parts if not part.mapped and len(part.index) <= _MERGED * len(index)]
        if own:
            everything = [(part.index, np.ones(len(part.numbers), dtype=bool)) for part in own]
            index = merge([*everything, (index, np.ones(len(segments), dtype=bool))])
        self._replace(own, _Part(index, self._number(index), mapped=False))
        self._there = np.append(self._there, np.ones(len(self.names) - len(self._there), dtype=bool))

    @property
    def rows_in_memory(self) -> int:
        """The number of sentences whose index only this process has, in its memory."""
        return sum(len(part.index) for part in self._parts if not part.mapped)

    def write(self, files: Dict[str, int]) -> None:
        """Write what is in this process's memory into the folder, or else into a file that this process alone maps."""
        if not self.rows_in_memory:
            return
        if self._shared:
            try:
                with try_lock(self._path, _WORK) as locked:
                    if locked:  # or else another process is writing an index, which may cover the same segments
                        self.update(files)
                        self.set_there(files.keys() | set(os.listdir(self._path)))  # also what has just been written
                        self._write_shared()
                        self.set_there(files)
                return
            except OSError as error:
                self._shared = False
                logger.info(f"BERT cache {self._path}: its index cannot be written ({error})")
        if self.rows_in_memory >= ROWS:
            self._write_private()

    def _find(self, keys: NDArray[np.uint8], places: NDArray[np.int32]) -> None:
        first, second = halves(keys)
        left = np.argsort(first)
        first, second = first[left], second[left]
        for part in self._parts:
            rows = part.index.find(first, second)
            found = rows >= 0
            numbers = np.where(self._usable(part), part.numbers, np.int32(-1))
            of_found = numbers[part.index.segment[rows[found]]]
            found[found] = of_found >= 0
            rows, at = rows[found], left[found]
            places[at, 0] = of_found[of_found >= 0]
            places[at, 1] = part.index.start[rows]
            if len(at) == len(left):
                return
            left, first, second = left[~found], first[~found], second[~found]

    def _usable(self, part: _Part) -> NDArray[np.bool_]:
        """Return which segments of *part* are there, and as they were when it was written."""
        usable = part.numbers >= 0
        usable[usable] = self._there[part.numbers[usable]]
        return usable

    def _masks(self, parts: Sequence[_Part]) -> List[NDArray[np.bool_]]:
        """Return which segments of each of *parts* are usable, and in none of the parts before."""
        masks, before = [], np.zeros(len(self.names), dtype=bool)
        for part in parts:
            mask = self._usable(part)
            mask[mask] = ~before[part.numbers[mask]]
            before[part.numbers[mask]] = True
            masks.append(mask)
        return masks

    def _open(self, name: str, files: Dict[str, int]) -> Optional[_Part]:
        file = self._path / name
        try:
            index = read_index(file)
            if index is None and self._shared:
                logger.warning(f"BERT cache {file} is damaged: it is removed, and written anew")
                file.unlink(missing_ok=True)
        except OSError:  # another process has just merged it into a new one, or this user may not read it
            return None
        if index is None:
            return None
        same = [name not in files or files[name] == size for name, size in index.names]
        return _Part(index, np.where(same, self._number(index), np.int32(-1)), name)

    def _number(self, index: KeyIndex) -> NDArray[np.int32]:
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name, _ in index.names]
        self.names += list(self._numbers)[len(self.names) :]
        return np.array(numbers, dtype=np.int32)

    def _write_shared(self) -> None:
        merged = [part for part in self._parts if part.file is None]
        rows = sum(len(part.index) for part in merged)
        for part in sorted((part for part in self._parts if part.file is not None), key=lambda part: len(part.index)):
            if len(part.index) > _MERGED * rows:
                break
            merged.append(part)
            rows += len(part.index)
        if rows and not all(part.file for part in merged):
            name = f"{uuid.uuid4().hex}{INDEX_SUFFIX}"
            self._replace(merged, replace(self._written(self._path / name, merged), file=name))
            for part in merged:
                if part.file is not None:
                    (self._path / part.file).unlink(missing_ok=True)

    def _write_private(self) -> None:
        if not self._private:
            self._private = True
            logger.info(
                f"BERT cache {self._path}: it has no complete index and cannot be written, so this process makes its "
                f"own one in {tempfile.gettempdir()}"
            )
        own = [part for part in self._parts if part.file is None]
        rows = self.rows_in_memory
        merged = [part for part in own if not part.mapped or len(part.index) <= _MERGED * rows]
        try:
            with tempfile.TemporaryDirectory(prefix="bert-cache-index-") as folder:
                self._replace(merged, self._written(Path(folder) / "index", merged))
        except OSError as error:
            logger.info(f"BERT cache {self._path}: this process keeps its index in memory ({error})")

    def _written(self, file: Path, parts: Sequence[_Part]) -> _Part:
        write_index(file, _WORK, [(part.index, mask) for part, mask in zip(parts, self._masks(parts))])
        index = read_index(file)
        if index is None:
            raise OSError(f"{file} is not as it was written")
        return _Part(index, self._number(index))

    def _replace(self, old: Sequence[_Part], new: _Part) -> None:
        self._parts = [part for part in self._parts if not any(part is replaced for replaced in old)] + [new]
