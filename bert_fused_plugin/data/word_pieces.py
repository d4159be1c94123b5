"""BERT's input for the sentences of a data set, as flat arrays that processes can share."""

import hashlib
from functools import cached_property
from typing import Iterable, List, Sequence, Union

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16


class WordPieces:
    """The word-piece ids of many sentences, one sentence after the other in one array.

    Args:
        pieces: word-piece ids of all sentences, (number of word pieces,).
        offsets: where each sentence begins, and where the last one ends, (number of sentences + 1,).
        num_truncated: number of sentences that were cut to the longest input of BERT.
        num_context_cut: number of sentences whose context was cut.
    """

    def __init__(
        self,
        pieces: NDArray[np.int32],
        offsets: NDArray[np.int64],
        num_truncated: int = 0,
        num_context_cut: int = 0,
    ) -> None:
        self.pieces = pieces
        self.offsets = offsets
        self.num_truncated = num_truncated
        self.num_context_cut = num_context_cut

    @classmethod
    def of(cls, rows: Iterable[Union[Sequence[int], NDArray[np.int32]]]) -> "WordPieces":
        """Return the word pieces of the sentences *rows*."""
        arrays = [np.asarray(row, dtype=np.int32) for row in rows]
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        return cls(np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int32), offsets)

    @classmethod
    def joined(cls, parts: Sequence["WordPieces"]) -> "WordPieces":
        """Return the word pieces of all sentences of *parts*, in order."""
        if len(parts) == 1:
            return parts[0]
        sizes = [np.zeros(1, dtype=np.int64), *(part.sizes for part in parts)]
        return cls(
            np.concatenate([np.zeros(0, dtype=np.int32), *(part.pieces for part in parts)]),
            np.cumsum(np.concatenate(sizes), dtype=np.int64),
            sum(part.num_truncated for part in parts),
            sum(part.num_context_cut for part in parts),
        )

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
    def keys(self) -> NDArray[np.uint8]:
        """A hash of each sentence, (number of sentences, 16), by which its states are found."""
        data = self.pieces.astype("<i4", copy=False).data.cast("B")
        ends = (4 * self.offsets).tolist()
        keys: List[bytes] = [
            hashlib.blake2b(data[start:end], digest_size=KEY_BYTES).digest() for start, end in zip(ends, ends[1:])
        ]
        return np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_BYTES)
