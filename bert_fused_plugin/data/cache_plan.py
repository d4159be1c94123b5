"""Which sentences of a data set have states in the feature cache, and in which parts their states are computed."""

from typing import Dict, Optional

import numpy as np
from numpy.typing import NDArray

from bert_fused_plugin.data.key_index import KeyIndex, halves
from bert_fused_plugin.data.word_pieces import WordPieces

Indices = NDArray[np.int64]

PART_BYTES = 128 * 2**20  # the size of a segment; an interrupted process loses at most one
MANY_PARTS = 256  # a cache that would have more than these segments has larger ones,
LARGEST_PART = 8  # which are at most as many times as large


def distinct(sentences: WordPieces) -> Indices:
    """Return the first index of each different sentence, ascending."""
    first, second = halves(sentences.keys)
    order = np.argsort(first, kind="stable")
    again = first[order[1:]] == first[order[:-1]]
    at = np.flatnonzero(again)
    if (second[order[at + 1]] != second[order[at]]).any():  # different sentences with the same first half
        order = np.lexsort((second, first))
        again = (first[order[1:]] == first[order[:-1]]) & (second[order[1:]] == second[order[:-1]])
    kept = np.ones(len(order), dtype=bool)
    kept[order[1:][again]] = False
    return np.flatnonzero(kept)


def longest_first(sentences: WordPieces, indices: Indices) -> Indices:
    """Return *indices* with the longest sentences first; those of equal length keep their order."""
    return indices[np.argsort(-lengths(sentences, indices), kind="stable")]


def within_limit(sentences: WordPieces, limit: Optional[int], bytes_of_piece: int) -> Indices:
    """Return the first index of each different sentence that there is room for, the longest sentences first.

    They depend on nothing but the sentences and the limit.

    Args:
        sentences: the sentences of one data set.
        limit: largest size in bytes of their states; None for no limit.
        bytes_of_piece: size of the states of one word piece.
    """
    chosen = longest_first(sentences, distinct(sentences))
    if limit is None:
        return chosen
    fit = np.cumsum(lengths(sentences, chosen)) <= limit // bytes_of_piece
    return chosen[: int(fit.sum())]


def same_as(sentences: WordPieces, chosen: Indices) -> NDArray[np.bool_]:
    """Return which of *sentences* are equal to one of the *chosen* ones, (number of sentences,)."""
    first, second = halves(sentences.keys)
    of_chosen = first[chosen]
    order = chosen[np.argsort(of_chosen)]
    nowhere = np.zeros(0, np.uint32)
    return KeyIndex([], first[order], second[order], nowhere, nowhere).find(first, second) >= 0


def lengths(sentences: WordPieces, indices: Indices) -> NDArray[np.int64]:
    """Return the number of word pieces of the sentences *indices*."""
    size: NDArray[np.int64] = sentences.offsets[indices + 1] - sentences.offsets[indices]
    return size


def number_of_parts(size: int, jobs: int = 1) -> int:
    """Return in how many parts *size* bytes of states are computed, the same number in all processes.

    Args:
        size: bytes of all states of a data set, also of those that are in the cache already.
        jobs: the number is a multiple of this.
    """
    part = min(max(PART_BYTES, size // MANY_PARTS), LARGEST_PART * PART_BYTES)
    return -(-(1 + size // part) // jobs) * jobs


def in_parts(sentences: WordPieces, indices: Indices, number: int) -> Dict[int, Indices]:
    """Return *indices* by the number of the part that their sentences belong to, in their order."""
    parts = (halves(sentences.keys)[0][indices] % np.uint64(number)).astype(np.uint32)
    order = np.argsort(parts, kind="stable")
    numbers, starts = np.unique(parts[order], return_index=True)
    return {int(part): indices[some] for part, some in zip(numbers, np.split(order, starts[1:]))}
