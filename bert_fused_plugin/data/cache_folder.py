"""A folder of the feature cache: which segments are in it, which of them are verified, and where sentences are."""

import errno
import logging
import os
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
from numpy.typing import NDArray

from bert_fused_plugin.data.cache_index import ROWS, CacheIndex
from bert_fused_plugin.data.cache_stamps import FileState, file_state, read_stamps, stamp
from bert_fused_plugin.data.feature_segments import SUFFIX, open_segment, read_keys, remove_unfinished
from bert_fused_plugin.data.key_index import SegmentKeys
from bert_fused_plugin.data.mapped_states import MappedStates

logger = logging.getLogger(__name__)

_VERIFIED_AT_ONCE = 2**30  # bytes; where more wait for it, each segment is verified when it is first read
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class CacheFolder:
    """The segments of one BERT, and the index of their sentences.

    Opening it reads no states, but for a few segments that no process has verified yet.

    Args:
        path: the folder.
        dim: the width of the states.
        dtype: number format of the states.

    Raises:
        OSError: the folder cannot be read.
    """

    def __init__(self, path: Path, dim: int, dtype: "np.dtype[Any]") -> None:
        self.path = path
        self.states = MappedStates(path, dim, dtype)
        self._dim = dim
        self._dtype = dtype
        self._files: Dict[str, FileState] = {}
        self._index = CacheIndex(path, self.states.names)
        if os.access(path, os.W_OK):
            try:
                remove_unfinished(path)
            except OSError as error:  # the folder can be written, but a lock or a file is another user's
                if error.errno not in _REFUSED:
                    raise
        self._scan()
        self._verify_few()
        self.refresh()
        self.write_index()

    def __len__(self) -> int:
        return len(self._index)

    def __getstate__(self) -> Dict[str, Any]:
        # another process only reads states
        return {**self.__dict__, "_files": {}, "_index": CacheIndex(self.path, [])}

    def find(self, keys: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return number of segment, and place in it, for each of *keys*: (number of sentences, 2), -1 if nowhere."""
        return self._index.find(keys)

    def refresh(self) -> None:
        """Take up the segments and indexes that other processes have written, and forget what is gone."""
        self._scan()
        self._index.update(self._sizes())
        while True:  # what an index of another process covers meanwhile need not be read
            names = sorted(set(self._files) - self._index.covered)
            segments: List[SegmentKeys] = []
            rows = 0
            while names and rows < ROWS:
                segments += self._read(names.pop(0))
                rows = sum(len(segment.keys) for segment in segments)
            if segments:
                self._add(segments)
            if not names:
                break
        self._index.set_there(self._sizes())

    def add_segment(self, file: Path, keys: NDArray[np.uint8], sizes: NDArray[Any]) -> None:
        """Take up a segment that this process has written."""
        state = file_state(file)
        stamp(self.path, file.name, state)
        self.states.verified.add(file.name)
        self._files[file.name] = state
        starts = (np.cumsum(sizes, dtype=np.int64) - sizes).astype(np.uint32)
        self._add([SegmentKeys(file.name, state[0], keys, starts)])

    def write_index(self) -> None:
        """Write the index of what no index in the folder covers yet."""
        self._index.write(self._sizes())

    def _scan(self) -> None:
        """Note which segments are in the folder now."""
        files = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX) and entry.name not in self.states.lost:
                    try:
                        files[entry.name] = self._files.get(entry.name) or file_state(Path(entry.path))
                    except FileNotFoundError:  # another process has just removed it
                        continue
        self._files = files

    def _verify_few(self) -> None:
        """Verify the segments that no process has verified yet, unless they are so many that it would take long."""
        stamps = read_stamps(self.path)
        self.states.verified = {name for name, state in self._files.items() if stamps.get(name) == state}
        new = sorted(set(self._files) - self.states.verified)
        size = sum(self._files[name][0] for name in new)
        if size > _VERIFIED_AT_ONCE:
            logger.info(
                f"BERT cache {self.path}: {len(new):,} segments, {size / 2**30:,.1f} GiB, have not been verified yet. "
                f"Each is verified when it is read first; bert-fused-cache verify {self.path.parent} does it before."
            )
            return
        for name in new:
            try:
                self.states.verify(name)
            except FileNotFoundError:  # another process has just removed it
                continue
            except OSError as error:  # of this file alone; all others can be used
                self.states.set_aside(name, error)

    def _read(self, name: str) -> List[SegmentKeys]:
        """Return the keys of a segment; none if it is damaged or gone, or cannot be read."""
        file = self.path / name
        try:
            segment = open_segment(file, self._dim, self._dtype)
            found = None if segment is None else read_keys(file, segment)
            if found is not None:
                return [SegmentKeys(name, self._files[name][0], *found)]
            if file.exists():
                self.states.remove_damaged(name)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.states.set_aside(name, error)
        del self._files[name]
        return []

    def _add(self, segments: List[SegmentKeys]) -> None:
        self._index.add(segments)
        if self._index.rows_in_memory >= ROWS:
            self.write_index()

    def _sizes(self) -> Dict[str, int]:
        return {name: size for name, (size, _) in self._files.items()}
