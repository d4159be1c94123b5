"""BERT's states for the data sets of a task, from the directory of ``--bert-cache``."""

import logging
import os
from typing import Any, Optional, Tuple

import torch
from fairseq.utils import split_paths
from torch import Tensor

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.identity import identity_fingerprint
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.cache_descriptions import BERT_NAME, sibling_remarks, write_description
from bert_fused_plugin.data.feature_cache import ComputeStates, FeatureCache
from bert_fused_plugin.data.shared_memory import small_shared_memory
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

logger = logging.getLogger(__name__)


class CachedStates:
    """The cache of a model's BERT, which is opened when the first data set asks for it.

    Args:
        cfg: the task's flags.
        model: a model that reads BERT, before fairseq turns it to half precision.
        on_cpu: whether BERT computes on the CPU, although there may be a GPU.

    Attributes:
        job: (K, N) to compute the share K, from 1 to N, of the states, for no training in this process; (1, 1) else.
    """

    job: Tuple[int, int] = (1, 1)

    def __init__(self, cfg: BertFusedTranslationConfig, model: Any, on_cpu: bool = False) -> None:
        self._cfg = cfg
        self._on_cpu = on_cpu
        self._bert: FrozenBert = model.encoder.bert
        self._bridge = model.encoder.bridge
        self._layers = str(model.cfg.bert_layer)
        self._identity = self._bert.identity()
        self._cache: Optional[FeatureCache] = None

    def use_for(self, dataset: BertPairDataset, split: str) -> None:
        """Let *dataset* take its states from the cache; what the cache does not have yet is computed and written."""
        if self.job != (1, 1):
            self._open().add(dataset.word_pieces, self._load_bert, self._limit(split))
            return
        left_out = dataset.use_cache(self._open(), self._load_bert, self._limit(split))
        if left_out:
            logger.info(
                f"{split}: BERT runs in every step for {left_out:,} of {len(dataset):,} sentences, for which "
                f"--bert-cache-limit {self._cfg.bert_cache_limit} leaves no room"
            )

    def _limit(self, split: str) -> Optional[int]:
        """Return the largest size in bytes of the states of one data set of *split*; None for no limit.

        It depends on nothing but the split and the flags, and so do batches: a training that is resumed in the middle
        of an epoch has loaded only one of several data directories, and must form the same batches.
        """
        if self._cfg.bert_cache_limit is None:
            return None
        shards = len(split_paths(self._cfg.data)) if split == self._cfg.train_subset else 1
        return int(self._cfg.bert_cache_limit * 1e9 / shards)

    def _open(self) -> FeatureCache:
        if self._cache is None:
            self._cache = FeatureCache(
                os.path.expanduser(str(self._cfg.bert_cache)),  # the shell leaves the ~ of --bert-cache=~/DIR
                fingerprint=identity_fingerprint(self._identity),
                dim=self._bert.state_dim,
                dtype=str(self._cfg.bert_cache_dtype),
                job=self.job,
            )
            logger.info(f"the BERT cache {self._cache.path} holds {len(self._cache):,} sentences")
            description = {**self._identity, "--bert-cache-dtype": str(self._cfg.bert_cache_dtype)}
            write_description(self._cache.path, {**description, BERT_NAME: self._bert.name})
            too_small = small_shared_memory()
            if too_small is not None:
                logger.warning(too_small)
            if not len(self._cache):
                for remark in sibling_remarks(self._cache.path, description):
                    logger.info(f"the BERT cache: {remark}")
        return self._cache

    def _load_bert(self) -> ComputeStates:
        """Load BERT once more, in full precision, whatever the model runs in; on a GPU if there is one."""
        device = torch.device("cuda" if torch.cuda.is_available() and not self._on_cpu else "cpu")
        bert = FrozenBert.from_pretrained(self._bert.name, self._layers).to(device)

        def states(bert_tokens: Tensor) -> Tensor:
            bert_tokens = bert_tokens.to(device)
            return bert(bert_tokens, self._bridge.segments(bert_tokens))[0].cpu()

        return states
