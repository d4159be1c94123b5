"""fairseq's translation task with BERT's input in every batch."""

import logging
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Tuple
from weakref import WeakValueDictionary

import torch
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import split_paths
from torch import Tensor

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset, InteractiveDataset
from bert_fused_plugin.data.data_bin import data_errors
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.document_context import read_document_starts
from bert_fused_plugin.data.feature_cache import Bert, FeatureCache
from bert_fused_plugin.data.raw_text import read_raw_text
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.bert_fused.encoder import BertFusedEncoder
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.models.gru_bahdanau.encoder import GruEncoder
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig, unusable_flags

logger = logging.getLogger(__name__)


@register_task("bert_fused_translation", dataclass=BertFusedTranslationConfig)
class BertFusedTranslationTask(TranslationTask):
    """Translation with ``bert_tokens`` in ``net_input``, from a data-bin of plain ``fairseq-preprocess``.

    BERT's input is made once, when a data set is loaded, by the bridge of the model.  A model without a
    bridge, such as fairseq's own transformer, gets plain translation batches.
    """

    cfg: BertFusedTranslationConfig
    bridge: Optional[DictionaryBridge] = None
    bert: PretrainedBert
    bert_layers: str
    bert_fingerprint: str
    cache: Optional[FeatureCache] = None
    keep_long_targets = True
    _warned = False
    _warned_of_buffer = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.max_source: int = self.cfg.max_source_positions
        self._berts: WeakValueDictionary[Tuple[str, Tuple[int, ...]], PretrainedBert] = WeakValueDictionary()

    @classmethod
    def setup_task(cls, cfg: BertFusedTranslationConfig, **kwargs: Any) -> "BertFusedTranslationTask":
        """Load the dictionaries.

        Raises:
            BertFusedError: the data directory does not fit the language pair.
        """
        raise_all(data_errors(cfg.data, cfg.source_lang, cfg.target_lang))
        task: BertFusedTranslationTask = super().setup_task(cfg, **kwargs)
        return task

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model, and take its bridge, and BERT's cache, for the data sets."""
        model = super().build_model(cfg, from_checkpoint)
        self.max_source = min(self.max_source, model.max_positions()[0])  # of all members of an ensemble
        self.keep_long_targets = self.keep_long_targets and _takes_any_target(model)
        if reads_bert(model):
            given = {"--bert-text": self.cfg.bert_text, "--bert-documents": self.cfg.bert_documents}
            model.encoder.bert_record.note_given([flag for flag, value in given.items() if value is not None])
            self._share_bert(model.encoder)
            self.bridge = model.encoder.bridge
            raise_all(unusable_flags(self.cfg, model))
            if self.bridge.reads_moses_tokens and self.cfg.bert_text is None and not from_checkpoint:
                logger.warning(
                    "the source dictionary looks tokenised by Moses (&apos; or @-@) but BERT reads plain text: "
                    "consider --bert-detok moses"
                )
            if self.cfg.bert_cache is not None:
                # taken here, before fairseq turns the model to half precision
                self.bert, self.bert_layers = model.encoder.bert, model.cfg.bert_layer
                self.bert_fingerprint = model.encoder.bert.fingerprint()
        else:
            given = {"--bert-text": self.cfg.bert_text, "--bert-cache": self.cfg.bert_cache}
            given["--bert-documents"] = self.cfg.bert_documents
            unused = [flag for flag, value in given.items() if value is not None]
            if unused:
                logger.warning(f"{', '.join(unused)} not used by {type(model).__name__}, which does not read BERT")
        return model

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load *split*, with BERT's input for each sentence.

        Outside the training set a source over ``--max-source-positions``, or over that of the model's
        training, is cut, not refused: no sentence of a test set is lost.
        """
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        evaluation = split != self.cfg.train_subset
        too_long = int((self.datasets[split].src_sizes > self.max_source).sum())
        if evaluation and too_long:
            logger.warning(f"{split}: {too_long} sources are cut to {self.max_source} tokens (--max-source-positions)")
            with self._cutting_sources():
                super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if self.bridge is None:
            return
        dataset = self.datasets[split]
        text, documents = (
            self._shard(flag, given, split, epoch)
            for flag, given in (("--bert-text", self.cfg.bert_text), ("--bert-documents", self.cfg.bert_documents))
        )
        texts = read_raw_text(
            text, split, self.cfg.source_lang, len(dataset), combine=combine, upsample=self.cfg.upsample_primary
        )
        truncated, context_cut = self.bridge.num_truncated, self.bridge.num_context_cut
        keep_long_targets = evaluation and self.keep_long_targets
        starts = read_document_starts(documents, split, len(dataset))
        self.datasets[split] = BertPairDataset(dataset, self.bridge, texts, keep_long_targets, starts)
        sizes = self.datasets[split].bert_sizes
        logger.info(
            f"{split}: {sizes.sum():,} word pieces for BERT, {sizes.mean() if len(sizes) else 0:.1f} a sentence, "
            f"{self.bridge.num_truncated - truncated} sentences cut to {self.bridge.max_tokens}"
            + (f", the context of {self.bridge.num_context_cut - context_cut}" if self.bridge.context else "")
        )
        if self.cfg.bert_cache is not None:
            left_out = self.datasets[split].use_cache(self._open_cache(self.cfg.bert_cache), self._load_bert)
            if left_out:
                logger.info(
                    f"{split}: BERT runs in every step for {left_out:,} of {len(dataset):,} sentences, for which "
                    f"--bert-cache-limit {self.cfg.bert_cache_limit} leaves no room"
                )

    def build_dataset_for_inference(
        self, src_tokens: List[Tensor], src_lengths: List[int], constraints: Optional[Tensor] = None
    ) -> Any:
        """Return the data set of the lines of one buffer; with ``--bert-context`` they follow each other.

        A line over ``--max-source-positions`` is cut, not refused.
        """
        src_tokens, limit = list(src_tokens), self.max_source
        for i, line in enumerate(src_tokens):
            if len(line) > limit:
                logger.warning(
                    f"a source line of {len(line)} tokens is cut to {limit} (--max-source-positions {limit})"
                )
                src_tokens[i] = torch.cat([line[: limit - 1], line[-1:]])
        src_lengths = [len(line) for line in src_tokens]
        dataset = super().build_dataset_for_inference(src_tokens, src_lengths, constraints=constraints)
        if self.bridge is None or not self.bridge.context:
            return dataset
        if constraints is not None:
            raise BertFusedError("--constraints and --bert-context do not work together in fairseq-interactive")
        if len(src_tokens) == 1 and not self._warned_of_buffer:
            logger.warning(
                f"--bert-context {self.bridge.context} reads the lines before in the same buffer, and this one has a "
                "single line; fairseq-interactive: --buffer-size"
            )
            self._warned_of_buffer = True
        return InteractiveDataset(dataset, self.bridge)

    def build_generator(self, models: List[Any], args: Any, **options: Any) -> Any:
        """Build fairseq's generator.

        Raises:
            BertFusedError: an alignment is asked of a model that does not attend to source tokens, or models of
                different BERT input read context.
        """
        contexts = [model.encoder.bridge.context for model in models if reads_bert(model)]
        if any(contexts) and not _read_alike(models):
            raise BertFusedError(
                f"--bert-context {max(contexts)}: the models of this ensemble differ in BERT or its input; "
                "translate with models that share them"
            )
        if getattr(args, "print_alignment", None):  # --eval-bleu-args and the hub interface need not name it
            if any(isinstance(m, BertFusedModel) and m.encoder.replaces_embeddings for m in models):
                raise BertFusedError(
                    "--print-alignment needs attention to source tokens; with --bert-fusion embedding there is "
                    "attention to BERT's word pieces only; leave it out"
                )
            if any(isinstance(m, GruModel) and m.decoder.attention is None for m in models):
                raise BertFusedError("--print-alignment needs attention, --attention none has none; leave it out")
        for model in models:
            if any(map(reads_bert, models)) and not reads_bert(model) and not hasattr(model, "ignores_bert_input"):
                _ignore_bert_input(model)
        return super().build_generator(models, args, **options)

    def inference_step(
        self, generator: Any, models: List[Any], sample: Dict[str, Any], constraints: Any = None, **options: Any
    ) -> Any:
        """Generate; in an ensemble whose members differ in BERT each derives its own BERT input."""
        if constraints is not None and self.bridge is not None and self.bridge.context:
            sample = {**sample, "net_input": {**sample["net_input"], "bert_tokens": constraints}}
            constraints = None
        if "bert_tokens" in sample["net_input"] and not _read_alike(models):
            given = {"--bert-text": self.cfg.bert_text, "--bert-cache": self.cfg.bert_cache}
            flags = [flag for flag, value in given.items() if value is not None]
            if flags and not self._warned:
                logger.warning(f"{', '.join(flags)} not used: the models of the ensemble differ in BERT or its input")
                self._warned = True
            sample = {**sample, "net_input": _without_bert(sample["net_input"])}
        return super().inference_step(generator, models, sample, constraints=constraints, **options)

    @contextmanager
    def _cutting_sources(self) -> Iterator[None]:
        """Switch fairseq's ``--truncate-source`` on, at what the model can take."""
        given = self.cfg.truncate_source, self.cfg.max_source_positions
        self.cfg.truncate_source, self.cfg.max_source_positions = True, self.max_source
        try:
            yield
        finally:
            self.cfg.truncate_source, self.cfg.max_source_positions = given

    def _shard(self, flag: str, given: Optional[str], split: str, epoch: int) -> Optional[str]:
        """Return which of the directories *given* with *flag* belongs to the one that fairseq takes *split* from.

        Of several data directories, joined by colons, each epoch takes the next for training.
        """
        if given is None or split != self.cfg.train_subset:
            return given and split_paths(given)[0]
        ours, data = split_paths(given), split_paths(self.cfg.data)
        if len(ours) != len(data):
            raise BertFusedError(
                f"{flag} {given} has {len(ours)} directories, and {self.cfg.data} has {len(data)}, of which each epoch "
                "takes the next; give as many, in the same order, joined by colons"
            )
        return ours[(epoch - 1) % len(ours)]

    def _share_bert(self, encoder: Any) -> None:
        """Let the members of an ensemble hold one BERT, whose state cache gives each batch's states to all of them."""
        weights = encoder.bert_record.record["weights"]
        if weights is not None:
            encoder.bert = self._berts.setdefault((weights, encoder.bert.layers), encoder.bert)

    def _open_cache(self, directory: str) -> FeatureCache:
        if self.cache is None:
            limit = self.cfg.bert_cache_limit
            self.cache = FeatureCache(
                directory,
                fingerprint=self.bert_fingerprint,
                dim=self.bert.state_dim,
                dtype=str(self.cfg.bert_cache_dtype),
                limit=None if limit is None else int(limit * 1e9),
            )
            logger.info(f"BERT cache {self.cache.path}: {len(self.cache):,} sentences")
        return self.cache

    def _load_bert(self) -> Bert:
        """Load BERT once more: in full precision, and on a GPU if there is one, whatever the model runs in."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        bert = FrozenBert.from_pretrained(self.bert.name, self.bert_layers).to(device)
        bridge: Any = self.bridge

        def states(bert_tokens: Tensor) -> Tensor:
            bert_tokens = bert_tokens.to(device)
            return bert(bert_tokens, bridge.segments(bert_tokens))[0].cpu()

        return states


def _read_alike(models: List[Any]) -> bool:
    """Say whether all *models* that read BERT have the same BERT input and states."""
    encoders = [model.encoder for model in models if reads_bert(model)]
    inputs = ((b.max_tokens, b.detok, b.subword, b.context) for b in (e.bridge for e in encoders))
    return len(set(zip((id(e.bert) for e in encoders), inputs))) <= 1


def reads_bert(model: Any) -> bool:
    """Say whether *model*, of any kind, attends to BERT."""
    encoder = model.encoder  # not the model's class: in validation under DDP a model is wrapped
    return isinstance(encoder, (BertFusedEncoder, GruEncoder)) and encoder.bridge is not None


def _takes_any_target(model: Any) -> bool:
    """Say whether no reference is too long for *model*: sinusoidal positions have no end, learned ones have."""
    return isinstance(model, GruModel) or (
        isinstance(model, TransformerModelBase) and not model.cfg.decoder.learned_pos
    )


def _ignore_bert_input(model: Any) -> None:
    """Let *model*, which does not read BERT, take the batches of a model that does: they are in one ensemble."""
    forward, encode = model.forward, model.encoder.forward_torchscript
    model.forward = lambda *inputs, **named: forward(*inputs, **_without_bert(named))
    model.encoder.forward_torchscript = lambda net_input: encode(_without_bert(net_input))
    model.ignores_bert_input = True  # once, whatever the number of generators


def _without_bert(net_input: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in net_input.items() if key not in ("bert_tokens", "bert_out")}
