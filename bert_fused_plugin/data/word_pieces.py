"""BERT's input for the sentences of a data set, as flat arrays that processes can share."""

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from bert_fused_plugin.files import written_whole

META = "meta.json"  # written last: a folder that has it is complete

_PIECES, _OFFSETS = "pieces.npy", "offsets.npy"


class WordPieces:
    """The word-piece ids of many sentences, one sentence after the other in one array.

    Args:
        pieces: word-piece ids of all sentences, (number of word pieces,).
        offsets: where each sentence begins, and where the last one ends, (number of sentences + 1,).
    """

    folder: Optional[Path] = None  # which keeps them, if `load` has read them

    def __init__(self, pieces: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        self.pieces = pieces
        self.offsets = offsets

    @classmethod
    def load(cls, folder: Path) -> "WordPieces":
        """Return the word pieces that `save` wrote into *folder*; all processes of a machine have them in memory once.

        Raises:
            OSError: a file is missing or cannot be read.
            ValueError: a file is cut short, or is not what `save` wrote.
        """
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        pieces, offsets = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_PIECES, _OFFSETS))
        loaded = cls(pieces, offsets)
        loaded.digest, loaded.folder = meta["digest"], folder
        return loaded

    @classmethod
    def save(cls, parts: Sequence[Path], folder: Path) -> None:
        """Write the word pieces of all *parts*, in order, into *folder*; memory holds one part at a time."""
        sizes = [np.zeros(1, dtype=np.int64)]
        for file in parts:
            with np.load(file) as part:
                sizes.append(part["sizes"])
        offsets = np.cumsum(np.concatenate(sizes), dtype=np.int64)
        with written_whole(folder / _OFFSETS) as new:
            np.save(new, offsets)
        with written_whole(folder / _PIECES) as new, new.open("wb") as target:
            header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False}
            np.lib.format.write_array_header_1_0(target, {**header, "shape": (int(offsets[-1]),)})
            for file in parts:
                with np.load(file) as part:
                    target.write(part["pieces"].data)
        digest = cls(np.load(folder / _PIECES, mmap_mode="r"), offsets).digest
        with written_whole(folder / META) as new:
            new.write_text(json.dumps({"digest": digest}), encoding="utf-8")

    def save_part(self, file: Path) -> None:
        """Write these word pieces as one of the parts of `save`."""
        with written_whole(file) as new:
            np.savez(new, sizes=self.sizes.astype(np.int32), pieces=self.pieces)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        """Return the word-piece ids of sentence *index*, (L,), without a copy."""
        return self.pieces[self.offsets[index] : self.offsets[index + 1]]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of word pieces of each sentence, (number of sentences,)."""
        return np.diff(self.offsets)

    @cached_property
    def digest(self) -> str:
        """A hash of all word pieces and of where the sentences begin, as 32 hexadecimal digits."""
        found = hashlib.blake2b(np.ascontiguousarray(self.offsets, "<i8").data, digest_size=16)
        found.update(np.ascontiguousarray(self.pieces, "<i4").data)
        return found.hexdigest()
