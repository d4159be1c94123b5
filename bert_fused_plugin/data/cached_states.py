"""BERT's states of a data set on disk.  They can be kept since a frozen BERT depends on the sentence alone."""

import logging
import os
import random
import shutil
from pathlib import Path
from typing import Callable, Dict, List, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from bert_fused_plugin.data.dictionary_bridge import collate_bert_tokens
from bert_fused_plugin.data.word_pieces import WordPieces
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole
from bert_fused_plugin.progress import Progress

logger = logging.getLogger(__name__)

NUMBER_FORMATS: Dict[str, torch.dtype] = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
SUFFIX = ".safetensors"

BATCH_PIECES = 8192  # word pieces, padding included, of one forward pass of BERT

_BLOCK_BYTES = 64 * 2**20
_MOST_BLOCKS = 4096

ComputeStates = Callable[[Tensor], Tensor]  # bert_tokens (B, L) -> states (B, L, N x D), in fp32 on the CPU


class CachedStates:
    """The states of the sentences of one data set, in the order of its word pieces.

    Row r of the states belongs to word piece r.  The states lie in blocks, which are safetensors files of the states of
    consecutive sentences: ``00000.safetensors`` and so on, each with the tensor ``states``.  Which sentences a block
    has follows from the word pieces alone.  *dim* is the width N x D of the states, and *dtype* their number format.
    """

    def __init__(self, folder: Path, word_pieces: WordPieces, dim: int, dtype: str) -> None:
        self.folder = folder
        self._word_pieces = word_pieces
        self._dim, self._format, self._dtype = dim, dtype, NUMBER_FORMATS[dtype]
        self._bytes_of_piece = dim * torch.empty(0, dtype=self._dtype).element_size()
        self._starts = _block_starts(word_pieces.offsets, self._bytes_of_piece)
        self._sizes = np.diff(word_pieces.offsets[self._starts])  # in word pieces

    def __getitem__(self, index: int) -> Tensor:
        """Return the states of sentence *index*, (L, N x D)."""
        number = int(self._starts.searchsorted(index, side="right")) - 1
        offsets = self._word_pieces.offsets
        before, pieces = int(offsets[index] - offsets[self._starts[number]]), int(offsets[index + 1] - offsets[index])
        states = np.empty(pieces * self._bytes_of_piece, np.uint8)
        try:  # safetensors maps the file, which, where it does not fit into memory, reads much around the sentence
            with self.file(number).open("rb", buffering=0) as file:
                begin = 8 + int.from_bytes(file.read(8), "little")  # after the header of safetensors
                if file.seek(0, os.SEEK_END) != begin + int(self._sizes[number]) * self._bytes_of_piece:
                    raise OSError("its size is not that of its states")
                file.seek(begin + before * self._bytes_of_piece)
                if file.readinto(states.data) != states.size:
                    raise OSError("the disk gives only a part")
        except OSError as error:
            raise BertFusedError(
                f"--bert-cache: {self.file(number)} cannot be read ({error}); remove this file if it is damaged, "
                "and start the run again, which computes what is missing"
            ) from error
        return torch.from_numpy(states).view(self._dtype).view(pieces, self._dim)

    def file(self, number: int) -> Path:
        """Return the file of the block *number*."""
        return self.folder / f"{number:05}{SUFFIX}"

    def missing(self) -> List[int]:
        """Return the numbers of the blocks that are not there."""
        there = set(os.listdir(self.folder)) if self.folder.exists() else set()
        return [number for number in range(len(self._sizes)) if f"{number:05}{SUFFIX}" not in there]

    def add_missing(self, load_bert: Callable[[], ComputeStates], part: Tuple[int, int] = (1, 1)) -> None:
        """Compute the missing blocks, or of N shares the share K, for *part* (K, N), by what *load_bert* returns.

        Raises:
            BertFusedError: the disk has too little room, or the number format cannot hold the states.
            OSError, SafetensorError: the folder cannot be written.
        """
        missing = self.missing()
        share = [number for number in missing if number % part[1] == part[0] - 1]
        if not share:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_space(missing)
        compute = load_bert()
        random.SystemRandom().shuffle(share)  # two jobs that begin together do little twice
        with Progress("BERT cache", int(self._sizes[share].sum()), "word pieces", say=logger.info) as shown:
            for number in share:
                if not self.file(number).exists():  # of another job
                    self._write(number, self._computed(number, compute, shown))
        if not self.missing():
            for leftover in self.folder.glob(".*"):  # of killed processes
                shutil.rmtree(leftover, ignore_errors=True)

    def _write(self, number: int, states: Tensor) -> None:
        try:
            with written_whole(self.file(number)) as new:
                save_file({"states": states}, new, {"blocks": str(len(self._sizes))})
        except (OSError, SafetensorError):
            if not self.file(number).exists():  # else another job has written it, and removed what this one had begun
                raise

    def _check_space(self, missing: List[int]) -> None:
        pieces = int(self._sizes[missing].sum())
        needed, free = pieces * self._bytes_of_piece, shutil.disk_usage(self.folder).free
        logger.info(
            f"BERT cache {self.folder}: {len(missing):,} of {len(self._sizes):,} blocks are missing, {pieces:,} "
            f"word pieces; {in_bytes(needed)} to write, {in_bytes(free)} free"
        )
        if needed > 0.98 * free:
            smaller = ", choose --bert-cache-dtype fp16" if self._format == "fp32" else ""
            raise BertFusedError(
                f"--bert-cache: {in_bytes(needed)} are needed in {self.folder}, but {in_bytes(free)} are free; "
                f"give a directory on a larger disk{smaller}, or leave the flag out"
            )

    def _computed(self, number: int, compute: ComputeStates, shown: Progress) -> Tensor:
        """Return the states of the block *number*, (word pieces, N x D)."""
        offsets = self._word_pieces.offsets[self._starts[number] : self._starts[number + 1] + 1]
        pieces = self._word_pieces.pieces[offsets[0] : offsets[-1]]
        states = torch.empty(len(pieces), self._dim, dtype=self._dtype)
        ends = (offsets - offsets[0]).tolist()
        places = sorted(map(slice, ends, ends[1:]), key=lambda place: place.start - place.stop)  # the longest first
        while places:
            count = max(1, BATCH_PIECES // (places[0].stop - places[0].start))
            batch, places = places[:count], places[count:]
            ids = [torch.from_numpy(pieces[place].astype(np.int64)) for place in batch]
            computed = self._in_number_format(compute(collate_bert_tokens(ids))).cpu()
            for place, row in zip(batch, computed):
                states[place] = row[: place.stop - place.start]
            shown.update(sum(place.stop - place.start for place in batch))
        return states

    def _in_number_format(self, states: Tensor) -> Tensor:
        if not states.abs().max() <= torch.finfo(self._dtype).max:  # NaN is in no range
            raise BertFusedError(
                f"--bert-cache {self.folder}: {self._format} cannot hold some of BERT's states; give "
                "--bert-cache-dtype bf16, and train with --bf16 or in single precision, since --fp16 cannot hold them"
            )
        return states.to(self._dtype)


def _block_starts(offsets: NDArray[np.int64], bytes_of_piece: int) -> NDArray[np.int64]:
    """Return the first sentence of each block, and the number of sentences, (number of blocks + 1,)."""
    pieces = int(offsets[-1])
    blocks = min(_MOST_BLOCKS, -(-pieces * bytes_of_piece // _BLOCK_BYTES))
    targets = [pieces * number // blocks for number in range(blocks)]
    return np.unique(np.append(offsets.searchsorted(targets), len(offsets) - 1))


def in_bytes(size: int) -> str:
    """Return *size*, a number of bytes, in words."""
    return f"{size / 2**30:,.2f} GiB" if size >= 2**30 else f"{size / 2**20:,.2f} MiB"
