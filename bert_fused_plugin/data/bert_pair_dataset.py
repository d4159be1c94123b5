"""A fairseq translation dataset with BERT's input for each source sentence."""

from pathlib import Path
from typing import Any, Collection, Dict, List, Optional

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, LanguagePairDataset, data_utils
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import ConcatDataset

from bert_fused_plugin.data.cached_states import CachedStates
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge, collate_bert_tokens
from bert_fused_plugin.data.word_pieces import Sentences, kept_word_pieces


class BertPairDataset(BaseWrapperDataset):
    """Adds ``bert_tokens`` to the samples and batches of a `LanguagePairDataset`.

    All sentences are tokenised at the start, since ``--max-tokens`` counts BERT's word pieces too.

    Args:
        texts: raw source texts, one for each sentence; default: derived from fairseq's ids.
        document_starts: indices of the sentences that begin a document, for a bridge with context.
        kept_in: the beginning of the path of the folder that keeps the word pieces of a corpus.
    """

    def __init__(
        self,
        dataset: LanguagePairDataset,
        bridge: DictionaryBridge,
        texts: Optional[ConcatDataset[str]] = None,
        document_starts: Collection[int] = (),
        kept_in: Optional[Path] = None,
    ) -> None:
        super().__init__(dataset)
        self.word_pieces = kept_word_pieces(Sentences(dataset, bridge, texts, document_starts), kept_in)
        self.states: Optional[CachedStates] = None  # of BERT, where there is a cache
        self.src, self.tgt = dataset.src, dataset.tgt  # which fairseq's commands ask for

    def bert_tokens(self, index: int) -> Tensor:
        """Return the word-piece ids of sentence *index*, (L,)."""
        return torch.from_numpy(self.word_pieces[index].astype(np.int64))

    def __getitem__(self, index: int) -> Dict[str, Any]:
        """Return fairseq's sample of *index* with ``bert_tokens``, and ``bert_out`` if there is a cache."""
        sample: Dict[str, Any] = self.dataset[index]
        sample["bert_tokens"] = self.bert_tokens(index)
        if self.states is not None:
            sample["bert_out"] = self.states[index]
        return sample

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        """Return fairseq's batch of *samples* with ``bert_tokens``, (B, L), and ``bert_out`` if there is a cache."""
        batch: Dict[str, Any] = self.dataset.collater(samples, **options)
        if batch:
            by_id = {sample["id"]: sample for sample in samples}
            ordered = [by_id[i] for i in batch["id"].tolist()]  # fairseq sorts them by length
            batch["net_input"]["bert_tokens"] = collate_bert_tokens([sample["bert_tokens"] for sample in ordered])
            if self.states is not None:
                batch["net_input"]["bert_out"] = pad_sequence([sample["bert_out"] for sample in ordered], True)
        return batch

    def num_tokens(self, index: int) -> int:
        """Return the length that ``--max-tokens`` counts: the longest of source, target and BERT's."""
        return int(max(self.dataset.num_tokens(index), len(self.word_pieces[index])))

    def batch_by_size(self, indices: NDArray[np.int64], max_tokens: Optional[int] = None, **limits: Any) -> Any:
        """Return batches by sizes that include BERT's; a sentence too long only in word pieces is a batch by itself."""
        limits["max_tokens"] = max_tokens
        if self.get_batch_shapes() is not None:  # --num-batch-buckets: the shapes are fairseq's
            return self.dataset.batch_by_size(indices, **limits)
        most = np.inf if max_tokens is None else max_tokens
        offsets = self.word_pieces.offsets
        pieces = offsets[indices + 1] - offsets[indices]
        sizes = np.maximum(self.dataset.num_tokens_vec(indices), np.minimum(pieces, most))
        return data_utils.batch_by_size(indices, self.num_tokens, num_tokens_vec=sizes.astype(np.int64), **limits)


class InteractiveDataset(BertPairDataset):
    """The lines of one buffer of ``fairseq-interactive``, each with the preceding lines as context."""

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        """Return fairseq's batch of *samples* with ``bert_tokens``, (B, L), also as ``constraints``."""
        batch = super().collater(samples, **options)
        # that command passes on only tokens, lengths and constraints
        return {**batch, "constraints": batch["net_input"]["bert_tokens"]} if batch else batch
