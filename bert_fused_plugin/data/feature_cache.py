"""BERT's states on disk.  They can be kept since a frozen BERT in evaluation mode depends on the sentence alone."""

import errno
import hashlib
import logging
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from bert_fused_plugin.data.collate import collate_bert_tokens
from bert_fused_plugin.data.feature_segments import (
    SUFFIX,
    in_number_format,
    map_states,
    read_segment,
    remove_unfinished,
    write_segment,
)
from bert_fused_plugin.data.word_pieces import KEY_BYTES, WordPieces
from bert_fused_plugin.data.work_locks import each_part_locked
from bert_fused_plugin.errors import BertFusedError

logger = logging.getLogger(__name__)

CACHE_DTYPES = ("fp16", "fp32")

_DTYPES = {"fp16": np.float16, "fp32": np.float32}
_PART_BYTES = 128 * 2**20  # the size of a segment; an interrupted process loses at most one
_BATCH_PIECES = 8192  # word pieces, padding included, of one forward pass of BERT

ComputeStates = Callable[[Tensor], Tensor]  # bert_tokens (B, L) -> states (B, L, N x D), in fp32 on the CPU


class FeatureCache:
    """The states of sentences, in memory-mapped files that any number of processes read.

    The cache is a folder of segments.  A segment is a safetensors file of ``states``, one row for each word piece, and,
    for each sentence, of its ``keys`` (16 bytes of a hash of its word-piece ids) and its ``sizes``.  A segment is
    written whole and renamed into place, so that no process sees a part of one, and is never changed.  Its checksum is
    verified when it is opened; a damaged segment is removed, and its sentences are computed anew.

    Args:
        directory: directory of all caches, with one folder for each BERT.
        fingerprint: hash of BERT's weights and configuration, which names the folder.
        dim: the width N x D of the states.
        dtype: number format of the states, ``fp16`` or ``fp32``.

    Raises:
        BertFusedError: the directory cannot be used.
    """

    def __init__(self, directory: str, *, fingerprint: str, dim: int, dtype: str) -> None:
        self.path = Path(directory) / f"{fingerprint[:32]}-{dtype}"
        self.dim = dim
        self.dtype = np.dtype(_DTYPES[dtype])
        self._directory = directory
        self._names: List[str] = []
        self._places: Dict[bytes, Tuple[int, int]] = {}
        self._states: Dict[int, Tensor] = {}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._open_repaired()
        except OSError as error:
            raise self._unusable(error) from error

    def __len__(self) -> int:
        return len(self._places)

    def add(self, sentences: WordPieces, load_bert: Callable[[], ComputeStates], limit: Optional[int] = None) -> None:
        """Compute and write the missing states of *sentences*.

        Processes that want the same sentences, such as the ranks of a training, share the work: each process computes
        parts that no other process works on, and finds the other parts done in the end.

        Args:
            sentences: the sentences of one data set.
            load_bert: a function that loads BERT and returns how it computes states.
            limit: largest size in bytes of the states of these sentences; None for no limit.

        Raises:
            BertFusedError: the disk has too little room, or cannot be written.
        """
        try:
            wanted = self._within_limit(sentences, limit)
            if not self._missing(wanted):
                return
            with self._lock():
                self._open_new_segments()
                missing = self._missing(wanted)
                if missing:
                    self._check_space(missing)
            self._build(self._parts(wanted, missing), load_bert)
        except OSError as error:
            raise self._unusable(error) from error

    def locate(self, sentences: WordPieces, limit: Optional[int] = None) -> NDArray[np.int64]:
        """Return the places of the states of *sentences*, for `states`: (number of sentences, 2), -1 for no states.

        The *sentences* and the *limit* that `add` was given decide which sentences have states, and never what other
        runs have left in the directory, or what this object has read before: batches depend on it, and a training
        that is resumed in the middle of an epoch must form the same batches.
        """
        keys = map(bytes, sentences.keys)
        wanted = None if limit is None else self._within_limit(sentences, limit).keys()
        places = [self._places.get(key, (-1, -1)) if wanted is None or key in wanted else (-1, -1) for key in keys]
        return np.array(places, dtype=np.int64).reshape(-1, 2)

    def states(self, place: NDArray[np.int64], size: int) -> Tensor:
        """Return the states, (L, D), of the sentence of *size* word pieces at *place*, without a copy."""
        segment, start = int(place[0]), int(place[1])
        if segment not in self._states:
            self._states[segment] = map_states(self.path / self._names[segment])
        return self._states[segment][start : start + size]

    def __getstate__(self) -> Dict[str, object]:
        # another process maps the files by itself
        return {**self.__dict__, "_states": {}, "_places": {}}

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = FileLock(self.path / "lock")
        try:
            lock.acquire(timeout=1)
        except Timeout:
            logger.info(f"BERT cache {self.path}: waiting for another process, which is at work on it")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _missing(self, unique: Dict[bytes, Tensor]) -> List[Tensor]:
        """Return those of the *unique* sentences, by their keys, that are in no segment, the longest first."""
        return sorted((row for key, row in unique.items() if key not in self._places), key=len, reverse=True)

    def _within_limit(self, sentences: WordPieces, limit: Optional[int]) -> Dict[bytes, Tensor]:
        """Return those of *sentences* that there is room for, by their keys.

        The longest come first, since BERT takes longest for them.
        """
        rows = (torch.from_numpy(sentences[i]).long() for i in range(len(sentences)))
        unique = {bytes(key): row for key, row in zip(sentences.keys, rows)}
        if limit is None:
            return unique
        chosen: Dict[bytes, Tensor] = {}
        room = limit // (self.dim * self.dtype.itemsize)
        for key, row in sorted(unique.items(), key=lambda item: len(item[1]), reverse=True):
            room -= len(row)
            if room < 0:
                break
            chosen[key] = row
        return chosen

    def _check_space(self, missing: Sequence[Tensor]) -> None:
        pieces = sum(len(row) for row in missing)
        needed = pieces * self.dim * self.dtype.itemsize + len(missing) * (KEY_BYTES + 4)
        free = shutil.disk_usage(self.path).free
        logger.info(
            f"BERT cache {self.path}: {len(missing):,} new sentences of {pieces:,} word pieces, "
            f"{needed / 2**20:,.1f} MiB to write, {free / 2**30:.1f} GiB free"
        )
        if needed > 0.98 * free:
            raise BertFusedError(
                f"--bert-cache {self._directory}: {needed / 2**30:.2f} GiB are needed, but {free / 2**30:.2f} GiB are "
                "free; give a directory on a larger disk, choose --bert-cache-dtype fp16, or leave the flag out"
            )

    def _parts(self, unique: Dict[bytes, Tensor], missing: Sequence[Tensor]) -> Dict[str, Dict[bytes, Tensor]]:
        """Return *missing* in parts of about `_PART_BYTES`, the same parts in all processes that want *unique*."""
        number = 1 + sum(map(len, unique.values())) * self.dim * self.dtype.itemsize // _PART_BYTES
        parts: Dict[str, Dict[bytes, Tensor]] = {}
        for row in missing:
            key = sentence_key(row)
            parts.setdefault(f"{int.from_bytes(key[:8], 'little') % number}-of-{number}", {})[key] = row
        return parts

    def _build(self, parts: Dict[str, Dict[bytes, Tensor]], load_bert: Callable[[], ComputeStates]) -> None:
        compute_states: Optional[ComputeStates] = None
        with _progress(sum(len(row) for rows in parts.values() for row in rows.values())) as advance:
            for part in each_part_locked(self.path, list(parts)):
                self._open_new_segments(repair=False)
                missing = self._missing(parts[part])
                advance(sum(map(len, parts[part].values())) - sum(map(len, missing)))
                if missing:
                    compute_states = compute_states or load_bert()
                    tensors = self._compute(missing, compute_states, advance)
                    self._add_segment(write_segment(self.path, tensors, part).name, tensors)

    def _compute(
        self, missing: Sequence[Tensor], compute_states: ComputeStates, advance: Callable[[int], None]
    ) -> Dict[str, NDArray[Any]]:
        states: List[NDArray[Any]] = []
        for batch in _batches(missing):
            computed = compute_states(collate_bert_tokens(batch)).numpy()
            batch_states = in_number_format(computed, self.dtype, self._directory)
            states += [state[: len(row)] for row, state in zip(batch, batch_states)]
            advance(sum(len(row) for row in batch))
        keys = b"".join(sentence_key(row) for row in missing)
        return {
            "keys": np.frombuffer(keys, np.uint8).reshape(-1, KEY_BYTES),
            "sizes": np.array([len(row) for row in missing], dtype=np.int32),
            "states": np.concatenate(states),
        }

    def _open_repaired(self) -> None:
        """Open the segments, and remove what is damaged if this user may; another user may have built the cache."""
        if os.access(self.path, os.W_OK):
            try:
                with self._lock():
                    self._open_new_segments()
                return
            except OSError as error:  # the folder can be written, but the lock or a damaged file is another user's
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
        self._open_new_segments(repair=False)

    def _open_new_segments(self, repair: bool = True) -> None:
        """Open and verify the segments that this process does not know yet.

        Args:
            repair: whether to remove damaged segments; the caller then holds the lock.
        """
        if repair:
            remove_unfinished(self.path)
        known = set(self._names)
        for file in sorted(self.path.glob(f"*{SUFFIX}")):
            if file.name in known:
                continue
            tensors = read_segment(file, self.dim, self.dtype)
            if tensors is not None:
                self._add_segment(file.name, tensors)
            elif repair:
                logger.warning(f"BERT cache {file} is damaged: it is removed, and its sentences are computed anew")
                file.unlink()

    def _add_segment(self, name: str, tensors: Dict[str, NDArray[Any]]) -> None:
        number = len(self._names)
        self._names.append(name)
        starts = np.cumsum(tensors["sizes"], dtype=np.int64) - tensors["sizes"]
        keys = tensors["keys"].tobytes()
        for i, start in enumerate(starts.tolist()):
            self._places[keys[i * KEY_BYTES : (i + 1) * KEY_BYTES]] = (number, start)

    def _unusable(self, error: OSError) -> BertFusedError:
        incomplete = f"it lacks sentences of this run, and {self.path} cannot be written; " if self._places else ""
        return BertFusedError(
            f"--bert-cache {self._directory} cannot be used ({error}); {incomplete}"
            "give a directory that can be written, on a disk with room, or leave the flag out"
        )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress towards *total*: a bar on a terminal, and a line in the log for each tenth elsewhere."""
    with tqdm(total=total, desc="BERT cache", unit=" pieces", disable=None) as bar:
        done = 0

        def advance(pieces: int) -> None:
            nonlocal done
            tenths, done = 10 * done // total, done + pieces
            bar.update(pieces)
            if bar.disable and 10 * done // total > tenths:
                logger.info(f"BERT cache: {100 * done // total} % of {total:,} word pieces")

        yield advance


def sentence_key(row: Tensor) -> bytes:
    """Return the hash of one sentence's word-piece ids, on which its states depend beside BERT."""
    return hashlib.blake2b(row.numpy().astype("<i4").tobytes(), digest_size=KEY_BYTES).digest()


def _batches(rows: Sequence[Tensor]) -> Iterator[List[Tensor]]:
    """Yield batches of rows of falling length with at most `_BATCH_PIECES` pieces, padding included."""
    start = 0
    while start < len(rows):
        size = max(1, _BATCH_PIECES // len(rows[start]))
        yield list(rows[start : start + size])
        start += size
