"""BERT's states on disk: a frozen BERT in evaluation mode is a function of the sentence alone."""

import hashlib
import json
import logging
import os
import shutil
import uuid
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import Tensor
from tqdm import tqdm

from bert_fused_plugin.data.collate import collate_bert_tokens
from bert_fused_plugin.errors import BertFusedError

logger = logging.getLogger(__name__)

CACHE_DTYPES = ("fp16", "fp32")

_DTYPES = {"fp16": np.float16, "fp32": np.float32}
_KEY_BYTES = 16
_SEGMENT_BYTES = 256 * 2**20  # an interrupted build loses at most one segment
_BATCH_PIECES = 8192  # word pieces, padding included, of one forward pass of BERT
_SUFFIX = ".safetensors"

Bert = Callable[[Tensor], Tensor]  # bert_tokens (B, L) -> bert_out (B, L, D), in fp32 on the CPU


class FeatureCache:
    """The states of sentences, in memory-mapped files that any number of processes read.

    A folder of segments: safetensors files of ``states`` (N, D), and for each sentence its ``keys``
    (16 bytes of a hash of its word-piece ids) and ``sizes``.  A segment is written whole and renamed into
    place, so there is no torn one; its checksum is verified when it is opened, and a damaged one
    is removed and its sentences are computed anew.  Segments are never changed.

    Args:
        directory: of all caches; one folder inside it holds what was computed with one BERT.
        fingerprint: of BERT's weights and configuration; another one is another folder.
        dim: D.
        dtype: ``fp16`` or ``fp32``.

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
        self._states: Dict[int, NDArray[Any]] = {}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with self._lock():
                self._open_new_segments()
        except OSError as error:
            raise self._unusable(error) from error

    def __len__(self) -> int:
        return len(self._places)

    def add(self, sentences: Sequence[Tensor], load_bert: Callable[[], Bert]) -> None:
        """Compute and write what is missing of *sentences*, rows of word-piece ids.

        One process at a time builds; another one waits, and then finds the work done.

        Raises:
            BertFusedError: the disk is too small, or cannot be written.
        """
        try:
            if not self._missing(sentences):
                return
            with self._lock():
                self._open_new_segments()
                missing = self._missing(sentences)
                if missing:
                    self._check_space(missing)
                    self._compute(missing, load_bert())
        except OSError as error:
            raise self._unusable(error) from error

    def locate(self, sentences: Sequence[Tensor]) -> NDArray[np.int64]:
        """Return where the states of each of *sentences* are, for `states`: (number of sentences, 2)."""
        return np.array([self._places[sentence_key(row)] for row in sentences], dtype=np.int64).reshape(-1, 2)

    def states(self, place: NDArray[np.int64], size: int) -> Tensor:
        """Return the states, (L, D), of the sentence of *size* word pieces at *place*, without a copy."""
        segment, start = int(place[0]), int(place[1])
        if segment not in self._states:
            self._states[segment] = _map_states(self.path / self._names[segment])
        rows = self._states[segment][start : start + size]
        return torch.from_numpy(rows)

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

    def _missing(self, sentences: Sequence[Tensor]) -> List[Tensor]:
        """Return the unique sentences that are in no segment, the longest first."""
        unique = {sentence_key(row): row for row in sentences}
        return sorted((row for key, row in unique.items() if key not in self._places), key=len, reverse=True)

    def _check_space(self, missing: Sequence[Tensor]) -> None:
        pieces = sum(len(row) for row in missing)
        needed = pieces * self.dim * self.dtype.itemsize + len(missing) * (_KEY_BYTES + 4)
        free = shutil.disk_usage(self.path).free
        logger.info(
            f"BERT cache {self.path}: {len(missing):,} new sentences of {pieces:,} word pieces, "
            f"{needed / 2**30:.2f} GiB to write, {free / 2**30:.1f} GiB free"
        )
        if needed > 0.98 * free:
            raise BertFusedError(
                f"--bert-cache {self._directory}: {needed / 2**30:.2f} GiB are needed, {free / 2**30:.2f} GiB are "
                "free; give a directory on a larger disk, choose --bert-cache-dtype fp16, or leave the flag out"
            )

    def _compute(self, missing: Sequence[Tensor], bert: Bert) -> None:
        segment: List[Tuple[Tensor, NDArray[Any]]] = []
        size = 0
        with _progress(sum(len(row) for row in missing)) as advance:
            for batch in _batches(missing):
                states = bert(collate_bert_tokens(batch)).numpy().astype(self.dtype)
                for row, state in zip(batch, states):
                    segment.append((row, state[: len(row)]))
                    size += len(row) * self.dim * self.dtype.itemsize
                advance(sum(len(row) for row in batch))
                if size >= _SEGMENT_BYTES:
                    self._write(segment)
                    segment, size = [], 0
        if segment:
            self._write(segment)

    def _write(self, segment: Sequence[Tuple[Tensor, NDArray[Any]]]) -> None:
        tensors: Dict[str, NDArray[Any]] = {
            "keys": np.frombuffer(b"".join(sentence_key(row) for row, _ in segment), np.uint8).reshape(-1, _KEY_BYTES),
            "sizes": np.array([len(row) for row, _ in segment], dtype=np.int32),
            "states": np.concatenate([state for _, state in segment]),
        }
        final = self.path / f"{uuid.uuid4().hex}{_SUFFIX}"
        unfinished = final.with_suffix(".unfinished")
        try:
            with open(unfinished, "wb") as file:
                file.write(save(tensors, metadata={"crc32": str(_checksum(tensors))}))
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, final)
        finally:
            unfinished.unlink(missing_ok=True)
        self._add_segment(final.name, tensors)

    def _open_new_segments(self) -> None:
        """Open and verify the segments that this process does not know yet; remove the damaged ones."""
        for leftover in self.path.glob("*.unfinished"):  # of a build that was killed; we hold the lock
            leftover.unlink()
        for file in sorted(self.path.glob(f"*{_SUFFIX}")):
            if file.name in self._names:
                continue
            tensors = _read_segment(file, self.dim, self.dtype)
            if tensors is None:
                logger.warning(f"BERT cache {file} is damaged: removed, its sentences are computed anew")
                file.unlink()
            else:
                self._add_segment(file.name, tensors)

    def _add_segment(self, name: str, tensors: Dict[str, NDArray[Any]]) -> None:
        number = len(self._names)
        self._names.append(name)
        starts = np.cumsum(tensors["sizes"], dtype=np.int64) - tensors["sizes"]
        keys = tensors["keys"].tobytes()
        for i, start in enumerate(starts.tolist()):
            self._places[keys[i * _KEY_BYTES : (i + 1) * _KEY_BYTES]] = (number, start)

    def _unusable(self, error: OSError) -> BertFusedError:
        return BertFusedError(
            f"--bert-cache {self._directory} cannot be used ({error}); "
            "give a directory that can be written, on a disk with room, or leave the flag out"
        )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show how much of *total* is done: a bar on a terminal, elsewhere a line in the log for each tenth."""
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
    """Return the hash of one sentence's word-piece ids: what its states depend on beside BERT."""
    return hashlib.blake2b(row.numpy().astype("<i4").tobytes(), digest_size=_KEY_BYTES).digest()


def model_fingerprint(model: torch.nn.Module, config: Dict[str, object]) -> str:
    """Return a hash of all that the states depend on beside the sentence: weights and configuration."""
    digest = hashlib.sha256()
    relevant = {key: value for key, value in config.items() if key not in ("_name_or_path", "transformers_version")}
    digest.update(json.dumps(relevant, sort_keys=True, default=str).encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _batches(rows: Sequence[Tensor]) -> Iterator[List[Tensor]]:
    """Yield batches of rows of falling length with at most `_BATCH_PIECES` pieces, padding included."""
    start = 0
    while start < len(rows):
        size = max(1, _BATCH_PIECES // len(rows[start]))
        yield list(rows[start : start + size])
        start += size


def _checksum(tensors: Dict[str, NDArray[Any]]) -> int:
    crc = 0
    for name in ("keys", "sizes", "states"):
        crc = zlib.crc32(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data, crc)
    return crc


def _read_header(file: Path) -> Tuple[Dict[str, Any], int]:
    """Return the header of a safetensors *file* and where the data begins, with its size checked."""
    with open(file, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= 100_000:
            raise ValueError("header")
        header: Dict[str, Any] = json.loads(stream.read(length))
    return header, 8 + length


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


def _map_states(file: Path) -> NDArray[Any]:
    return _map(file, "states")


def _read_segment(file: Path, dim: int, dtype: "np.dtype[Any]") -> Optional[Dict[str, NDArray[Any]]]:
    """Return the tensors of a segment, or None if it is damaged."""
    try:
        header, base = _read_header(file)
        tensors = {name: _map(file, name) for name in ("keys", "sizes", "states")}
        keys, sizes, states = tensors["keys"], tensors["sizes"], tensors["states"]
        sound = (
            file.stat().st_size == base + max(header[name]["data_offsets"][1] for name in tensors)
            and keys.shape == (len(sizes), _KEY_BYTES)
            and states.shape == (int(sizes.sum()), dim)
            and states.dtype == dtype
            and header["__metadata__"]["crc32"] == str(_checksum(tensors))
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return tensors if sound else None
