"""BERT's states on disk.  They can be kept since a frozen BERT in evaluation mode depends on the sentence alone."""

import logging
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, Optional, Tuple

import numpy as np
from filelock import Timeout
from numpy.typing import NDArray
from torch import Tensor

from bert_fused_plugin.data import cache_plan
from bert_fused_plugin.data.cache_building import ComputeStates, computed_states, progress_towards
from bert_fused_plugin.data.cache_folder import CacheFolder
from bert_fused_plugin.data.cache_index import ROWS
from bert_fused_plugin.data.cache_plan import Indices, lengths
from bert_fused_plugin.data.feature_segments import write_segment
from bert_fused_plugin.data.word_pieces import KEY_BYTES, WordPieces
from bert_fused_plugin.data.work_locks import WorkLock, each_part_locked
from bert_fused_plugin.errors import BertFusedError

logger = logging.getLogger(__name__)

__all__ = ["CACHE_DTYPES", "ComputeStates", "FeatureCache"]

CACHE_DTYPES = ("fp16", "fp32")

_DTYPES = {"fp16": np.float16, "fp32": np.float32}


class FeatureCache:
    """The states of sentences, in memory-mapped files that any number of processes read.

    The cache is a folder of segments.  A segment is a safetensors file of ``states``, one row for each word piece, and,
    for each sentence, of its ``keys`` (16 bytes of a hash of its word-piece ids) and its ``sizes``.  A segment is
    written whole and renamed into place, so that no process sees a part of one, and is never changed.  Its checksum is
    verified once, at the latest when it is read first; a damaged segment is removed, and its sentences are computed
    anew.  Indexes, which are files too, say where the states of a sentence are.

    Args:
        directory: directory of all caches, with one folder for each BERT.
        fingerprint: hash of BERT's weights and configuration, which names the folder.
        dim: the width N x D of the states.
        dtype: number format of the states, ``fp16`` or ``fp32``.
        job: (K, N) to compute only the share K, from 1 to N, of what is missing; default: all of it.

    Raises:
        BertFusedError: the directory cannot be used.
    """

    def __init__(
        self, directory: str, *, fingerprint: str, dim: int, dtype: str, job: Tuple[int, int] = (1, 1)
    ) -> None:
        self.path = Path(directory) / f"{fingerprint[:32]}-{dtype}"
        self.dim = dim
        self.dtype = np.dtype(_DTYPES[dtype])
        self._directory = directory
        self._job = job
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._folder = CacheFolder(self.path, dim, self.dtype)
        except OSError as error:
            raise self._unusable(error, incomplete=False) from error
        self._states = self._folder.states

    def __len__(self) -> int:
        return len(self._folder)

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
            self._folder.refresh()  # some segment may have been found damaged, by this process or by another
            if limit is None and not len(self._missing(sentences, None)):
                return
            wanted = cache_plan.within_limit(sentences, limit, self._bytes_of_piece)
            if not len(self._missing(sentences, wanted)):
                return
            with self._lock():
                self._folder.refresh()
                parts = self._parts(sentences, wanted)
                if parts:
                    self._check_space(sentences, parts)
            del wanted
            self._build(sentences, parts, load_bert)
            self._folder.write_index()
        except OSError as error:
            raise self._unusable(error, incomplete=len(self) > 0) from error

    def locate(self, sentences: WordPieces, limit: Optional[int] = None) -> NDArray[np.int32]:
        """Return the places of the states of *sentences*, for `states`: (number of sentences, 2), -1 for no states.

        The *sentences* and the *limit* that `add` was given decide which sentences have states, and never what other
        runs have left in the directory, or what this object has read before: batches depend on it, and a training
        that is resumed in the middle of an epoch must form the same batches.
        """
        places = self._folder.find(sentences.keys)
        if limit is not None:
            wanted = cache_plan.within_limit(sentences, limit, self._bytes_of_piece)
            places[~cache_plan.same_as(sentences, wanted)] = -1
        return places

    def states(self, place: NDArray[np.int32], size: int) -> Optional[Tensor]:
        """Return the states, (L, D), of the sentence of *size* word pieces at *place*, without a copy.

        They are None if their segment turns out to be damaged, or has been removed meanwhile; BERT must then run for
        this sentence, until the cache is opened the next time.
        """
        states = self._states[int(place[0])]
        if states is None:
            return None
        start = int(place[1])
        return states[start : start + size]

    @property
    def _bytes_of_piece(self) -> int:
        return self.dim * self.dtype.itemsize

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = WorkLock(self.path / "lock")
        try:
            lock.acquire(timeout=1)
        except Timeout:
            logger.info(f"BERT cache {self.path}: waiting for another process, which is at work on it")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _missing(self, sentences: WordPieces, wanted: Optional[Indices] = None) -> Indices:
        """Return those of the *wanted* sentences that are in no segment, in their order; default: of all sentences."""
        number = len(sentences) if wanted is None else len(wanted)
        absent = np.zeros(number, dtype=bool)
        for start in range(0, number, ROWS):
            some = slice(start, start + ROWS)
            keys = sentences.keys[some if wanted is None else wanted[some]]
            absent[some] = self._folder.find(keys)[:, 0] < 0
        return np.flatnonzero(absent) if wanted is None else wanted[absent]

    def _parts(self, sentences: WordPieces, wanted: Indices) -> Dict[str, Indices]:
        """Return what is missing of *wanted* in parts, which are the same in all processes that want the same."""
        job, jobs = self._job
        size = int(lengths(sentences, wanted).sum()) * self._bytes_of_piece
        number = cache_plan.number_of_parts(size, jobs)
        parts = cache_plan.in_parts(sentences, self._missing(sentences, wanted), number)
        return {f"{part}-of-{number}": some for part, some in parts.items() if part % jobs == job - 1}

    def _check_space(self, sentences: WordPieces, parts: Dict[str, Indices]) -> None:
        number = sum(map(len, parts.values()))
        pieces = sum(int(lengths(sentences, some).sum()) for some in parts.values())
        needed = pieces * self._bytes_of_piece + number * (KEY_BYTES + 4)
        free = shutil.disk_usage(self.path).free
        logger.info(
            f"BERT cache {self.path}: {number:,} new sentences of {pieces:,} word pieces, "
            f"{needed / 2**20:,.1f} MiB to write, {free / 2**30:.1f} GiB free"
        )
        if needed > 0.98 * free:
            raise BertFusedError(
                f"--bert-cache {self._directory}: {needed / 2**30:.2f} GiB are needed, but {free / 2**30:.2f} GiB are "
                "free; give a directory on a larger disk, choose --bert-cache-dtype fp16, or leave the flag out"
            )

    def _build(self, sentences: WordPieces, parts: Dict[str, Indices], load_bert: Callable[[], ComputeStates]) -> None:
        compute: Optional[ComputeStates] = None
        with progress_towards(sum(int(lengths(sentences, some).sum()) for some in parts.values())) as progress:
            for part in each_part_locked(self.path, list(parts)):
                self._folder.refresh()
                missing = self._missing(sentences, parts[part])
                done = int(lengths(sentences, parts[part]).sum()) - int(lengths(sentences, missing).sum())
                progress.advance(done)
                if len(missing):
                    compute = compute or load_bert()
                    states = computed_states(sentences, missing, compute, self.dtype, self._directory)
                    keys, sizes = sentences.keys[missing], lengths(sentences, missing)
                    counted = progress.counted(states)
                    file = write_segment(self.path, part, keys, sizes, counted, self.dim, self.dtype)
                    self._folder.add_segment(file, keys, sizes)

    def _unusable(self, error: OSError, incomplete: bool) -> BertFusedError:
        reason = f"it lacks sentences of this run, and {self.path} cannot be written; " if incomplete else ""
        return BertFusedError(
            f"--bert-cache {self._directory} cannot be used ({error}); {reason}"
            "give a directory that can be written, on a disk with room, or leave the flag out"
        )
