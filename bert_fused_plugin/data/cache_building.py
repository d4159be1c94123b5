"""Computes the states of a part of the feature cache, batch by batch, and shows how far it is."""

import logging
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Optional

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from bert_fused_plugin.data.cache_plan import Indices, lengths
from bert_fused_plugin.data.collate import collate_bert_tokens
from bert_fused_plugin.data.word_pieces import WordPieces
from bert_fused_plugin.errors import BertFusedError

logger = logging.getLogger(__name__)

BATCH_PIECES = 8192  # word pieces, padding included, of one forward pass of BERT

ComputeStates = Callable[[Tensor], Tensor]  # bert_tokens (B, L) -> states (B, L, N x D), in fp32 on the CPU

_FIRST_BATCHES = 3  # by which the time of all is estimated


class Progress:
    """Shows the progress towards *total* word pieces: a bar on a terminal, and lines in the log elsewhere."""

    def __init__(self, total: int, bar: Any) -> None:
        self._total, self._bar = total, bar
        self._done = 0
        self._batches, self._computed = 0, 0
        self._start: Optional[float] = None

    def advance(self, pieces: int) -> None:
        """Count *pieces* that are done."""
        tenths, self._done = 10 * self._done // self._total, self._done + pieces
        self._bar.update(pieces)
        if self._bar.disable and 10 * self._done // self._total > tenths:
            logger.info(f"BERT cache: {100 * self._done // self._total} % of {self._total:,} word pieces")

    def counted(self, batches: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Yield the *batches* of states that this process computes, and count their word pieces."""
        for states in batches:
            self._computed_batch(len(states))
            yield states

    def _computed_batch(self, pieces: int) -> None:
        """Count the *pieces* of one batch; after the first batches, say how long all take."""
        self.advance(pieces)
        self._batches += 1
        if self._start is None:  # the first batch also warms up, and does not count
            self._start = time.monotonic()
            return
        self._computed += pieces
        if self._batches == _FIRST_BATCHES:
            speed = self._computed / max(time.monotonic() - self._start, 1e-9)
            minutes = round((self._total - self._done) / speed / 60)
            if minutes:
                logger.info(
                    f"BERT cache: this process computes {speed:,.0f} word pieces a second, and would take "
                    f"{minutes // 60} h {minutes % 60:02} min for the {self._total - self._done:,} that are left; "
                    "processes that work on the same cache share them"
                )


@contextmanager
def progress_towards(total: int) -> Iterator[Progress]:
    """Show the progress towards *total* word pieces."""
    with tqdm(total=total, desc="BERT cache", unit=" pieces", disable=None) as bar:
        yield Progress(total, bar)


def computed_states(
    sentences: WordPieces, indices: Indices, compute: ComputeStates, dtype: "np.dtype[Any]", directory: str
) -> Iterator[NDArray[Any]]:
    """Yield the states of each batch of the sentences *indices*, the longest of which come first: (word pieces, dim).

    Raises:
        BertFusedError: the number format *dtype* cannot hold some; the message names the cache's *directory*.
    """
    start = 0
    sizes = lengths(sentences, indices)
    while start < len(indices):
        batch = indices[start : start + max(1, BATCH_PIECES // max(1, int(sizes[start])))]
        rows = [torch.from_numpy(np.array(sentences[i])).long() for i in batch]
        computed = compute(collate_bert_tokens(rows)).numpy()
        states = in_number_format(computed, dtype, directory)
        yield np.concatenate([state[: len(row)] for row, state in zip(rows, states)])
        start += len(batch)


def in_number_format(states: NDArray[Any], dtype: "np.dtype[Any]", directory: str) -> NDArray[Any]:
    """Return the computed *states* in the number format *dtype*.

    Raises:
        BertFusedError: some of them are not finite there; the message names the cache's *directory*.
    """
    with np.errstate(over="ignore"):
        converted: NDArray[Any] = states.astype(dtype)
    if np.isfinite(converted).all():
        return converted
    if not np.isfinite(states).all():
        reason = "are not finite, even in single precision; give another --bert-model, whose weights are sound"
    else:
        reason = (
            "are beyond float16, whose largest number is 65,504; give --bert-cache-dtype fp32, and train with --bf16 "
            "or in single precision, since --fp16 cannot hold them either"
        )
    raise BertFusedError(f"--bert-cache {directory}: some of BERT's states {reason}")
