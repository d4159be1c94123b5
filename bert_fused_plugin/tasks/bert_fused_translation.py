"""fairseq's translation task with BERT's input in every batch."""

import copy
import logging
from functools import cache
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence
from weakref import WeakValueDictionary

import numpy as np
import torch
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask
from fairseq.token_generation_constraints import pack_constraints, unpack_constraints
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from bert_fused_plugin import setup_messages
from bert_fused_plugin.bert.layer_choice import last_layer_warning
from bert_fused_plugin.bert.source import source_of
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset, InteractiveDataset
from bert_fused_plugin.data.data_bin import data_errors, directory_of_epoch
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.document_context import files_of, read_document_starts
from bert_fused_plugin.data.raw_text import check_raw_text, read_raw_text
from bert_fused_plugin.data.subwords import bleu_tokenizer, detect_subword, language_code
from bert_fused_plugin.data.tags import language_tags
from bert_fused_plugin.data.typed_text import TypedText
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.fairseq_settings import flags_beside, resumed_from
from bert_fused_plugin.modules.attention_map import log_alphas
from bert_fused_plugin.tasks import ensembles
from bert_fused_plugin.tasks.bert_cache import BertCache
from bert_fused_plugin.tasks.bert_fused_translation_config import (
    BertFusedTranslationConfig,
    given_flags,
    unusable_flags,
)
from bert_fused_plugin.tasks.training_checks import settings_beside, training_errors, trial_errors

logger = logging.getLogger(__name__)


@register_task("bert_fused_translation", dataclass=BertFusedTranslationConfig)
class BertFusedTranslationTask(TranslationTask):
    """Translation with ``bert_tokens`` in ``net_input``, from a data-bin of plain ``fairseq-preprocess``.

    BERT's input is made once, when a data set is loaded, by the bridge of the model.  A model without a bridge, such as
    fairseq's own transformer, gets plain translation batches.
    """

    cfg: BertFusedTranslationConfig
    bridge: Optional[DictionaryBridge] = None
    bert_cache: Optional[BertCache] = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.max_source: int = self.cfg.max_source_positions
        self._berts: ensembles.Berts = WeakValueDictionary()
        self._typed_text = TypedText(self.src_dict)
        self._tokenizer: Any = None
        self._criterion: Any = None  # until a validation was tried
        self._beside_model: Dict[str, Any] = {}
        self._warn_once = cache(logger.warning)
        setup_messages.collect()

    @classmethod
    def setup_task(cls, cfg: BertFusedTranslationConfig, **kwargs: Any) -> Any:
        """Load the dictionaries.

        Raises:
            BertFusedError: the data directory does not fit the language pair.
        """
        raise_all(data_errors(cfg.data, cfg.source_lang, cfg.target_lang))
        return super().setup_task(cfg, **kwargs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model, and take its bridge for the data sets, and BERT's cache.

        Raises:
            BertFusedError: the task's flags do not fit the model, or those of fairseq spoil the training.
        """
        if not from_checkpoint:
            self._beside_model = settings_beside(cfg)
            raise_all(training_errors(self.cfg, self._beside_model))
        model = super().build_model(cfg, from_checkpoint)
        if from_checkpoint:  # no training follows
            setup_messages.end(repeat=False)
        self.max_source = min(self.max_source, model.max_positions()[0])  # of all members of an ensemble
        source = source_of(model)
        if source is None:
            unused = given_flags(self.cfg, "bert_text", "bert_cache", "bert_cache_dtype", "bert_documents")
            if unused:
                logger.warning(f"{type(model).__name__} does not read BERT and so does not use {', '.join(unused)}")
            return model
        source.record.update(given=given_flags(self.cfg, "bert_text", "bert_documents"))
        ensembles.share_bert(self._berts, source)
        self.bridge = source.bridge
        raise_all(unusable_flags(self.cfg, model))
        if self.cfg.bert_cache is not None:
            # of a checkpoint, cfg has the flags of its training
            on_cpu = not from_checkpoint and bool(flags_beside(cfg, "common").get("cpu"))
            self.bert_cache = BertCache(self.cfg, model, on_cpu)
        if not from_checkpoint:
            self._warn_of_input(model, cfg)
        return model

    def can_reuse_epoch_itr(self, dataset: Any) -> bool:
        """Return whether fairseq may keep the batches of *dataset*; those of typed lines would fill the memory."""
        return self._has_loaded(dataset) and super().can_reuse_epoch_itr(dataset)

    def get_batch_iterator(self, dataset: Any, max_tokens: Optional[int] = None, *args: Any, **options: Any) -> Any:
        """Make batches of at most *max_tokens*; a typed line that is longer has a batch of its own size."""
        if max_tokens is not None and not self._has_loaded(dataset):
            max_tokens = max([max_tokens, *map(dataset.num_tokens, range(len(dataset)))])
        return super().get_batch_iterator(dataset, max_tokens, *args, **options)

    def _has_loaded(self, dataset: Any) -> bool:
        return any(dataset is loaded for loaded in self.datasets.values())

    def build_criterion(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the criterion, which is tried before the first update."""
        self._criterion = super().build_criterion(cfg, *args, **kwargs)
        return self._criterion

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Begin an epoch; before the first one of a launch, try a validation, and log the set-up once more.

        Raises:
            BertFusedError: the validations of this training would fail, or its best checkpoint could not be found.
        """
        super().begin_epoch(epoch, model)
        if self._criterion is not None:
            raise_all(trial_errors(self, model, self._criterion, self._beside_model))
            self._criterion = None
        setup_messages.end(repeat=True)

    def valid_step(self, sample: Dict[str, Any], model: Any, criterion: Any) -> Any:
        """Validate; BERT reads a batch once for both the loss and the translations of ``--eval-bleu``."""
        net_input = ensembles.with_bert_states([model], sample["net_input"])
        return super().valid_step({**sample, "net_input": net_input}, model, criterion)

    def post_validate(self, model: Any, stats: Dict[str, Any], agg: Any) -> None:
        """Add to *stats*, which fairseq prints next, what the heads of *model* have learned about their attention."""
        stats.update(log_alphas(model))

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load *split*, with BERT's input for each sentence, which the model makes: it must have been built before.

        In evaluation, a source that is longer than ``--max-source-positions`` of the task or of the model's training
        is cut and neither refused nor skipped.
        """
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        # of the training set, too, by fairseq-generate and fairseq-validate, which pass the settings of the checkpoint
        evaluation = split != self.cfg.train_subset or "task_cfg" in kwargs
        too_long = int((self.datasets[split].src_sizes > self.max_source).sum())
        if evaluation and too_long:
            logger.warning(f"{split}: {too_long} sources are cut to {self.max_source} tokens (--max-source-positions)")
            stock = TranslationTask(copy.deepcopy(self.cfg), self.src_dict, self.tgt_dict)
            stock.cfg.truncate_source, stock.cfg.max_source_positions = True, self.max_source
            stock.load_dataset(split, epoch=epoch, combine=combine, **kwargs)
            whole, self.datasets[split] = self.datasets[split].src, stock.datasets[split]
            if hasattr(whole, "get_original_text"):  # of --dataset-impl raw, for --replace-unk
                self.datasets[split].src.get_original_text = whole.get_original_text
        if self.bridge is not None:
            self.datasets[split] = self._with_bert_input(self.bridge, split, None if evaluation else epoch)

    def build_tokenizer(self, args: Any) -> Any:
        """Build fairseq's tokenizer of raw text; that of Moses takes ``fr_CA`` for English, and so gets ``fr``."""
        if isinstance(args, DictConfig) and args.get("_name") == "moses":
            sides = {side: language_code(args[side]) for side in ("source_lang", "target_lang")}
            args = OmegaConf.merge(args, sides)
        self._tokenizer = super().build_tokenizer(args)
        return self._tokenizer

    def get_interactive_tokens_and_lengths(self, lines: List[str], encode_fn: Callable[[str], str]) -> Any:
        """Return the ids of the raw *lines* and their numbers; a warning says if *lines* do not fit the dictionary."""
        for flag in given_flags(self.cfg, "bert_text", "bert_documents", "bert_cache"):
            self._warn_once(f"{flag} is for data sets, and typed lines are read without it")
        split = [encode_fn(self._typed_text.plain(line)) for line in lines]
        self._typed_text.check(split, self._tokenizer)
        return super().get_interactive_tokens_and_lengths(split, str)

    def build_dataset_for_inference(
        self, src_tokens: List[Tensor], src_lengths: List[int], constraints: Optional[Tensor] = None
    ) -> Any:
        """Return the data set of the lines of one buffer; with ``--bert-context`` they follow each other."""
        src_tokens = [self._truncated(line) for line in src_tokens]
        src_lengths = [len(line) for line in src_tokens]
        if constraints is not None:
            constraints = self._known(constraints)
        dataset = super().build_dataset_for_inference(src_tokens, src_lengths, constraints=constraints)
        if self.bridge is None or not self.bridge.context:
            return dataset
        if constraints is not None:
            raise BertFusedError("--constraints does not work with --bert-context in fairseq-interactive; leave it out")
        if len(src_tokens) == 1:
            self._warn_once(
                f"--bert-context {self.bridge.context} reads the preceding lines of the same buffer, and this one has "
                "a single line; give fairseq-interactive a larger --buffer-size"
            )
        return InteractiveDataset(dataset, self.bridge)

    def build_generator(self, models: Sequence[Any], args: Any, **options: Any) -> Any:
        """Build fairseq's generator.

        Raises:
            BertFusedError: an alignment is asked of a model that does not attend to source tokens, or models of
                different BERT input read context.
        """
        # --eval-bleu-args and the hub interface need not name it
        errors = ensembles.ensemble_errors(models, bool(getattr(args, "print_alignment", None)))
        is_generate = "extra_gen_cls_kwargs" in options  # fairseq-generate
        shards = flags_beside(args, "dataset").get("num_shards", 1)
        if is_generate and shards > 1:
            errors.append(
                f"--num-shards {shards} has no effect on fairseq-generate; give each of N processes "
                "--distributed-world-size N --distributed-rank K, with K from 0 on, and a GPU (CUDA_VISIBLE_DEVICES=K)"
            )
        if is_generate and args.constraints:
            errors.append(
                "--constraints has no effect on fairseq-generate, whose data has none; give them to "
                "fairseq-interactive, after the source line, with a tab before each"
            )
        raise_all(errors)
        return super().build_generator(ensembles.members(models), args, **options)

    def inference_step(
        self,
        generator: Any,
        models: Sequence[Any],
        sample: Dict[str, Any],
        prefix_tokens: Any = None,
        constraints: Any = None,
    ) -> Any:
        """Generate; BERT reads a batch once, unless the members of an ensemble differ in BERT or in its input."""
        net_input = sample["net_input"]
        reads_context = self.bridge is not None and self.bridge.context > 0
        if reads_context and "bert_tokens" not in net_input and constraints is not None:  # see InteractiveDataset
            net_input, constraints = {**net_input, "bert_tokens": constraints}, None
        if ensembles.agree_on_bert_input(models):
            net_input = ensembles.with_bert_states(models, net_input)
        else:
            net_input = ensembles.without_bert_input(net_input)
        flags = {"bert_tokens": "bert_text", "bert_out": "bert_cache"}
        lost = [flags[name] for name in flags if name in sample["net_input"].keys() - net_input.keys()]
        if unused := given_flags(self.cfg, *lost):
            self._warn_once(f"the models differ in BERT or its input, and do not use {', '.join(unused)}")
        sample, models = {**sample, "net_input": net_input}, ensembles.members(models)
        hypos = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if sample.get("target") is not None or prefix_tokens is not None:
            return hypos
        lengths = net_input["src_lengths"].tolist()  # of typed lines: nothing is made of nothing
        return [hypos[i] if length > 1 else list(map(_without_words, hypos[i])) for i, length in enumerate(lengths)]

    def _warn_of_input(self, model: Any, cfg: Any) -> None:
        """Warn before a training, of the model's flags *cfg*, if other settings would give *model* better input."""
        bert, bridge = model.encoder.source.bert, model.encoder.source.bridge
        tags = language_tags(self.source_dictionary)  # a model of many languages has those of all
        if tags and not bridge.tags and self.cfg.bert_text is None:
            logger.warning(f"BERT reads symbols like {tags[0]}, maybe tags of languages; consider --bert-strip-tags")
        if self.cfg.bert_text is None and bridge.misses_capitals(self.source_dictionary):
            logger.warning(
                f"BERT ({model.cfg.bert_model}) distinguishes capitals, but the source dictionary has none; give an "
                "uncased BERT, or the text with its capitals (--bert-text)"
            )
        kind, removed = detect_subword(self.target_dictionary), self.cfg.eval_bleu_remove_bpe
        joined = {"@@ ": "subword_nmt"}.get(removed, removed) == kind  # the flag alone gives "@@ "
        if kind == "sentencepiece" and bleu_tokenizer(self.cfg.target_lang) is not None:
            if self.cfg.eval_bleu and joined:
                logger.warning(
                    f"--eval-bleu counts words, and {self.cfg.target_lang} has no spaces between them; leave out "
                    "--eval-bleu-remove-bpe and give --eval-tokenized-bleu, for BLEU of subwords"
                )
        elif self.cfg.eval_bleu and kind in ("subword_nmt", "sentencepiece") and not joined:
            logger.warning(f"--eval-bleu scores subwords and not words; give --eval-bleu-remove-bpe {kind}")
        if bridge.loses_capitals(self.source_dictionary):
            logger.warning(
                f"BERT ({model.cfg.bert_model}) knows no capitals, and the source dictionary has some; give "
                "--bert-tokenizer-options do_lower_case=true"
            )
        # a BERT that trains can make its last layer fit, and a training that resumes cannot change the layer
        if bert.saves_weights or resumed_from(cfg) is not None:
            return
        if warning := last_layer_warning(bert.name, bert.layers, bert.depth, model.cfg.bert_model):
            logger.warning(warning)

    def _with_bert_input(self, bridge: DictionaryBridge, split: str, shard: Optional[int]) -> BertPairDataset:
        """Return the data set of *split* with BERT's input; *shard* is the epoch, or None in evaluation."""
        cfg, dataset, name = self.cfg, self.datasets[split], f"{split}.{self.cfg.source_lang}"
        size = len(dataset)
        text = directory_of_epoch("--bert-text", cfg.bert_text, cfg.data, shard)
        documents = directory_of_epoch("--bert-documents", cfg.bert_documents, cfg.data, shard)
        beside_data = Path(str(directory_of_epoch("", cfg.data, cfg.data, shard)), "bert-pieces")
        pieces_in = beside_data if cfg.bert_cache is None else Path(cfg.bert_cache).expanduser() / "word-pieces"
        files = files_of(dataset.src)
        texts = read_raw_text(text, split, cfg.source_lang, files)
        if texts is not None:
            check_raw_text(texts, dataset.src, bridge, f"--bert-text {text}: {name}")
        starts = read_document_starts(documents, split, files) if bridge.context else set()
        result = BertPairDataset(dataset, bridge, texts, starts, pieces_in / name)
        sizes = np.diff(result.word_pieces.offsets)
        logger.info(
            f"{split}: {sizes.sum():,} word pieces for BERT, {sizes.sum() / max(1, size):.1f} a sentence, "
            f"{(sizes == bridge.max_tokens).sum()} sentences reach the limit of {bridge.max_tokens}"
        )
        if self.bert_cache is not None:
            self.bert_cache.use_for(result, name)
        return result

    def _known(self, constraints: Tensor) -> Tensor:
        """Return the packed *constraints* without those that would force unknown symbols."""
        rows = [unpack_constraints(row) for row in constraints]
        known = [[words for words in row if self.tgt_dict.unk() not in words] for row in rows]
        if lost := sum(map(len, rows)) - sum(map(len, known)):
            logger.warning(f"{lost} constraints have symbols that the target dictionary lacks, and are left out")
        return pack_constraints(known)

    def _truncated(self, line: Tensor) -> Tensor:
        limit = self.max_source
        if len(line) <= limit:
            return line
        logger.warning(f"a source line of {len(line)} tokens is cut to {limit} (--max-source-positions {limit})")
        return torch.cat([line[: limit - 1], line[-1:]])


def _without_words(hypothesis: Dict[str, Any]) -> Dict[str, Any]:
    """Return a *hypothesis* of fairseq's search with the end of the sentence alone."""
    last = {name: hypothesis[name][-1:] for name in ("tokens", "positional_scores")}
    return {**hypothesis, **last, "alignment": hypothesis["alignment"][:0]}
