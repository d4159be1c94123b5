"""A fairseq translation dataset with BERT's input for each source sentence."""

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, FairseqDataset, LanguagePairDataset
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from bert_fused_plugin.data.collate import add_bert_tokens
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.feature_cache import Bert, FeatureCache

_CHUNK = 10_000  # sentences tokenised at once


class BertPairDataset(BaseWrapperDataset):
    """Adds ``bert_tokens`` to the samples and batches of a `LanguagePairDataset`.

    All sentences are tokenised once, at the start, since ``--max-tokens`` counts BERT's word pieces
    too.  They are kept as one flat int32 array, which worker processes share.

    Args:
        dataset: fairseq's dataset.
        bridge: derives the word pieces.
        texts: raw source texts, one for each sentence; default: derived from fairseq's ids.
    """

    def __init__(
        self,
        dataset: LanguagePairDataset,
        bridge: DictionaryBridge,
        texts: Optional[Sequence[str]] = None,
    ) -> None:
        super().__init__(dataset)
        self._pieces, self._offsets = _tokenize(dataset, bridge, texts)
        self.bert_sizes: NDArray[np.int64] = np.diff(self._offsets)
        self._cache: Optional[FeatureCache] = None

    def use_cache(self, cache: FeatureCache, load_bert: Callable[[], Bert]) -> None:
        """Take BERT's states from *cache* from now on; *load_bert* is called if some are not there yet."""
        rows = [self.bert_tokens(i) for i in range(len(self))]
        cache.add(rows, load_bert)
        self._places = cache.locate(rows)
        self._cache = cache

    @property
    def src(self) -> Any:
        """The source side, as fairseq's commands ask for it."""
        return self.dataset.src

    @property
    def tgt(self) -> Any:
        """The target side, as fairseq's commands ask for it."""
        return self.dataset.tgt

    def bert_tokens(self, index: int) -> Tensor:
        """Return the word-piece ids of sentence *index*, (L,)."""
        return torch.from_numpy(self._pieces[self._offsets[index] : self._offsets[index + 1]]).long()

    def __getitem__(self, index: int) -> Dict[str, Any]:
        """Return fairseq's sample of *index* with ``bert_tokens``, and ``bert_out`` if there is a cache."""
        sample: Dict[str, Any] = self.dataset[index]
        sample["bert_tokens"] = self.bert_tokens(index)
        if self._cache is not None:
            sample["bert_out"] = self._cache.states(self._places[index], int(self.bert_sizes[index]))
        return sample

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        """Return fairseq's batch of *samples* with ``bert_tokens``, (B, L), in ``net_input``."""
        batch: Dict[str, Any] = self.dataset.collater(samples, **options)
        return add_bert_tokens(batch, samples) if batch else batch

    def num_tokens(self, index: int) -> int:
        """Return the length that ``--max-tokens`` counts: the longest of source, target and BERT's."""
        return int(max(self.dataset.num_tokens(index), self.bert_sizes[index]))

    def num_tokens_vec(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `num_tokens` of all *indices*."""
        return np.maximum(self.dataset.num_tokens_vec(indices), self.bert_sizes[indices])

    def batch_by_size(self, indices: NDArray[np.int64], **limits: Any) -> Any:
        """Form batches by this dataset's sizes, where the base class would ask the wrapped one's."""
        return FairseqDataset.batch_by_size(self, indices, **limits)


def _tokenize(
    dataset: LanguagePairDataset, bridge: DictionaryBridge, texts: Optional[Sequence[str]]
) -> "tuple[NDArray[np.int32], NDArray[np.int64]]":
    """Return all word pieces one after the other, and where each sentence begins."""
    chunks: List[NDArray[np.int32]] = []
    sizes: List[int] = [0]
    with tqdm(
        total=len(dataset),
        desc="word pieces for BERT",
        unit=" sentences",
        disable=None,
        leave=False,
    ) as bar:
        for start in range(0, len(dataset), _CHUNK):
            indices = range(start, min(start + _CHUNK, len(dataset)))
            if texts is None:
                rows = bridge.encode_tokens([dataset.src[i].tolist() for i in indices])
            else:
                rows = bridge.encode([texts[i] for i in indices])
            chunks.append(np.fromiter((piece for row in rows for piece in row), dtype=np.int32))
            sizes += [len(row) for row in rows]
            bar.update(len(rows))
    pieces = np.concatenate(chunks) if chunks else np.zeros(0, dtype=np.int32)
    return pieces, np.cumsum(sizes, dtype=np.int64)
