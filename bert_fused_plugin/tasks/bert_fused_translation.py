"""fairseq's translation task with BERT's input in every batch."""

import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.feature_cache import CACHE_DTYPES, Bert, FeatureCache
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.bert_fused_encoder import BertFusedEncoder
from bert_fused_plugin.modules.frozen_bert import FrozenBert

logger = logging.getLogger(__name__)


@dataclass
class BertFusedTranslationConfig(TranslationConfig):
    """All flags of fairseq's translation task, and where BERT's text is."""

    bert_text: Optional[str] = field(
        default=None,
        metadata={
            "help": "directory with the raw source text for BERT, DIR/{split}.{lang}, one sentence a line; "
            "default: derived from the binarised data"
        },
    )
    bert_cache: Optional[str] = field(
        default=None,
        metadata={
            "help": "directory that keeps BERT's states: computed once for each sentence, then read by all runs "
            "with the same BERT; default: BERT runs in every step"
        },
    )
    bert_cache_dtype: ChoiceEnum(CACHE_DTYPES) = field(  # type: ignore[valid-type]
        default="fp16", metadata={"help": "number format of the cached states"}
    )


@register_task("bert_fused_translation", dataclass=BertFusedTranslationConfig)
class BertFusedTranslationTask(TranslationTask):
    """Translation with ``bert_tokens`` in ``net_input``, from a data-bin of plain ``fairseq-preprocess``.

    BERT's input is made once, when a data set is loaded, by the bridge of the model.  A model without a
    bridge, such as fairseq's own transformer, gets plain translation batches.
    """

    cfg: BertFusedTranslationConfig
    bridge: Optional[DictionaryBridge] = None
    bert: FrozenBert
    bert_fingerprint: str
    cache: Optional[FeatureCache] = None
    max_source: int
    keep_long_targets: bool
    _warned = False

    @classmethod
    def setup_task(cls, cfg: BertFusedTranslationConfig, **kwargs: Any) -> "BertFusedTranslationTask":
        """Load the dictionaries.

        Raises:
            BertFusedError: the data directory does not fit the language pair.
        """
        _check_data(cfg)
        task: BertFusedTranslationTask = super().setup_task(cfg, **kwargs)
        return task

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model, and take its bridge, and BERT's cache, for the data sets."""
        model = super().build_model(cfg, from_checkpoint)
        if isinstance(model, BertFusedModel):
            self.bridge = model.encoder.bridge
            self.max_source = min(self.cfg.max_source_positions, model.max_positions()[0])
            # sinusoidal positions have no end; learned ones have
            self.keep_long_targets = not model.cfg.decoder.learned_pos
            if self.cfg.bert_cache is not None:
                # taken here, before fairseq turns the model to half precision
                self.bert, self.bert_fingerprint = model.encoder.bert, model.encoder.bert.fingerprint()
        return model

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load *split*, with BERT's input for each sentence.

        Outside the training set a source over ``--max-source-positions``, or over that of the model's
        training, is cut, not refused: no sentence of a test set is lost.
        """
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if self.bridge is None:
            return
        evaluation = split != self.cfg.train_subset
        too_long = int((self.datasets[split].src_sizes > self.max_source).sum())
        if evaluation and too_long:
            logger.warning(f"{split}: {too_long} sources are cut to {self.max_source} tokens (--max-source-positions)")
            with self._cutting_sources():
                super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split]
        texts = self._raw_texts(split, len(dataset))
        truncated = self.bridge.num_truncated
        keep_long_targets = evaluation and self.keep_long_targets
        self.datasets[split] = BertPairDataset(dataset, self.bridge, texts, keep_long_targets)
        sizes = self.datasets[split].bert_sizes
        logger.info(
            f"{split}: {sizes.sum():,} word pieces for BERT, {sizes.mean() if len(sizes) else 0:.1f} a sentence, "
            f"{self.bridge.num_truncated - truncated} sentences cut to {self.bridge.max_tokens}"
        )
        if self.cfg.bert_cache is not None:
            self.datasets[split].use_cache(self._open_cache(self.cfg.bert_cache), self._load_bert)

    def get_interactive_tokens_and_lengths(self, lines: List[str], encode_fn: Any) -> Tuple[List[Tensor], List[int]]:
        """Return the ids of *lines*; a line over ``--max-source-positions`` is cut, not refused."""
        tokens, _ = super().get_interactive_tokens_and_lengths(lines, encode_fn)
        limit = self.cfg.max_source_positions if self.bridge is None else self.max_source
        for i, line in enumerate(tokens):
            if len(line) > limit:
                logger.warning(
                    f"a source line of {len(line)} tokens is cut to {limit} (--max-source-positions {limit})"
                )
                tokens[i] = torch.cat([line[: limit - 1], line[-1:]])
        return tokens, [len(line) for line in tokens]

    def inference_step(self, generator: Any, models: List[Any], sample: Dict[str, Any], **options: Any) -> Any:
        """Generate; in an ensemble of different encoders each derives its own BERT input."""
        if "bert_tokens" in sample["net_input"] and not _share_bert(models):
            if not self._warned and (self.cfg.bert_text or self.cfg.bert_cache):
                logger.warning("--bert-text and --bert-cache are not used: the models of the ensemble differ in BERT")
                self._warned = True
            given = sample["net_input"].items()
            net_input = {key: value for key, value in given if key not in ("bert_tokens", "bert_out")}
            sample = {**sample, "net_input": net_input}
        return super().inference_step(generator, models, sample, **options)

    @contextmanager
    def _cutting_sources(self) -> Iterator[None]:
        """Switch fairseq's ``--truncate-source`` on, at what the model can take."""
        given = self.cfg.truncate_source, self.cfg.max_source_positions
        self.cfg.truncate_source, self.cfg.max_source_positions = True, self.max_source
        try:
            yield
        finally:
            self.cfg.truncate_source, self.cfg.max_source_positions = given

    def _open_cache(self, directory: str) -> FeatureCache:
        if self.cache is None:
            dtype = str(self.cfg.bert_cache_dtype)
            self.cache = FeatureCache(directory, fingerprint=self.bert_fingerprint, dim=self.bert.dim, dtype=dtype)
            logger.info(f"BERT cache {self.cache.path}: {len(self.cache):,} sentences")
        return self.cache

    def _load_bert(self) -> Bert:
        """Load BERT once more: in full precision, and on a GPU if there is one, whatever the model runs in."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        bert = FrozenBert.from_pretrained(self.bert.name, self.bert.layer).to(device)
        return lambda bert_tokens: bert(bert_tokens.to(device))[0].cpu()

    def _raw_texts(self, split: str, size: int) -> Optional[List[str]]:
        if self.cfg.bert_text is None:
            return None
        path = os.path.join(self.cfg.bert_text, f"{split}.{self.cfg.source_lang}")
        try:
            with open(path, encoding="utf-8", newline="\n") as lines:
                texts = [line.rstrip("\r\n") for line in lines]
        except (OSError, UnicodeDecodeError) as error:
            raise BertFusedError(
                f"--bert-text {self.cfg.bert_text}: {path} cannot be read as UTF-8 text ({error}); "
                f"it must hold the raw source text of {split!r}, one sentence a line"
            ) from error
        if len(texts) != size:
            raise BertFusedError(
                f"--bert-text {self.cfg.bert_text}: {path} has {len(texts)} lines, the binarised {split!r} has "
                f"{size} sentences; it must be the raw text of exactly these sentences, line by line"
            )
        return texts


def _share_bert(models: List[Any]) -> bool:
    """Say whether all *models* read the same BERT input and states."""
    # the models' encoders, since in validation under DDP a model is wrapped
    encoders = [model.encoder for model in models]
    if not all(isinstance(encoder, BertFusedEncoder) for encoder in encoders):
        return False
    return len({(e.bert.name, e.bert.layer, e.bridge.max_tokens, e.bridge.detok) for e in encoders}) == 1


def _check_data(cfg: BertFusedTranslationConfig) -> None:
    paths = utils.split_paths(cfg.data) if cfg.data else [""]
    raise_all(
        [
            f"data directory {path!r} does not exist; give the --destdir of fairseq-preprocess"
            for path in paths
            if not os.path.isdir(path)
        ]
    )
    path = paths[0]
    found = sorted(name for name in os.listdir(path) if name.startswith("dict.") and name.endswith(".txt"))
    raise_all(
        [
            f"{flag} {lang}: {path} has no dict.{lang}.txt, only {', '.join(found) or 'no dictionary'}; "
            "give the languages, in the direction, that the data was binarised for"
            for flag, lang in (
                ("--source-lang", cfg.source_lang),
                ("--target-lang", cfg.target_lang),
            )
            if lang is not None and f"dict.{lang}.txt" not in found
        ]
    )
