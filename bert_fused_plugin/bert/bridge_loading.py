"""Builds the bridge of a model from the flags of the model and of its task."""

import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any, Mapping, Optional, Tuple

from fairseq.data import Dictionary, encoders
from fairseq.utils import split_paths
from omegaconf import DictConfig

from bert_fused_plugin.bert.flags import BertFlags
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.subwords import SUBWORDS, Join, cannot_join, join_by_bpe
from bert_fused_plugin.data.tags import tags_named, tags_of_task
from bert_fused_plugin.errors import BertFusedError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def task_settings(task: Any) -> Mapping[str, Any]:
    """Return the settings of *task*; a task that fairseq has not moved to dataclasses keeps them in ``args``."""
    settings = task.args if task.cfg is None else task.cfg
    return settings if isinstance(settings, Mapping) else vars(settings)


def load_bridge(
    cfg: BertFlags, task: Any, tokenizer: "PreTrainedTokenizerBase", max_tokens: int, flags: Any
) -> DictionaryBridge:
    """Return the bridge from the source dictionary of *task* to *tokenizer*.

    Args:
        cfg: the model's flags about BERT.
        task: fairseq's task.
        tokenizer: BERT's tokenizer.
        max_tokens: longest BERT input in word pieces.
        flags: all flags that were given together with the model's, among them ``--bpe`` and its files.

    Raises:
        BertFusedError: the text for BERT cannot be made as the flags say, and the task has no raw text for it.
    """
    dictionary, settings = task.source_dictionary, task_settings(task)
    bridge = DictionaryBridge(
        dictionary,
        tokenizer,
        max_tokens=max_tokens,
        subword=str(cfg.bert_subword),
        detok=str(cfg.bert_detok),
        lang=settings.get("source_lang") or "en",
        context=cfg.bert_context,
        tags=[*tags_named(cfg.bert_strip_tags, dictionary), *tags_of_task(task)],
    )
    kind, bpe = _bpe_of(flags)
    if kind is not None and kind in SUBWORDS[bridge.subword].bpe:
        bridge.join_by(*_join_by_files(kind, _located(bpe, settings), dictionary))
    elif bridge.problem:
        bridge.problem = cannot_join(bridge.subword, dictionary, _dictionary_file(settings))
    if bridge.problem and settings.get("bert_text") is None:
        raise BertFusedError(bridge.problem)
    return bridge


def _located(bpe: Any, settings: Mapping[str, Any]) -> Any:
    """Return the flags *bpe*, whose files that begin with ``./`` are those in the data directory if it has them.

    An exported model names its files in this way, as `bert_fused_plugin.bert.loading.locate_bert` says of its BERT.
    """
    if isinstance(bpe, DictConfig) or not settings.get("data"):
        return bpe
    data = split_paths(settings["data"])[0]
    given = {name: value for name, value in vars(bpe).items() if isinstance(value, str) and value.startswith("./")}
    found = {name: os.path.join(data, value[2:]) for name, value in given.items()}
    return Namespace(**{**vars(bpe), **{name: place for name, place in found.items() if os.path.isfile(place)}})


def _join_by_files(kind: str, bpe: Any, dictionary: Dictionary) -> Tuple[Join, str]:
    """Return what joins the subwords by the files of ``--bpe``, and a text that names it and the files' contents."""
    try:
        join, fingerprint = join_by_bpe(encoders.build_bpe(bpe), dictionary)
        return join, f"{kind} with the files {fingerprint}"
    except Exception as error:  # of files, of their formats, and of the network that the default of gpt2 needs
        raise BertFusedError(
            f"--bpe {kind}: its files do not turn the numbers of the source dictionary into text ({error}); give the "
            "files that the training data was split with"
        ) from error


def _bpe_of(flags: Any) -> Tuple[Optional[str], Any]:
    """Return the kind of ``--bpe`` in *flags*, and what fairseq builds it from."""
    if isinstance(flags, DictConfig):  # the model's section of a YAML file
        root: Any = flags._get_root()
        bpe = root.bpe if "bpe" in root else None
        return None if bpe is None else bpe._name, bpe
    return vars(flags).get("bpe"), flags


def _dictionary_file(settings: Mapping[str, Any]) -> str:
    file = settings.get("source_dict") or settings.get("fixed_dictionary")
    if file is not None:
        return str(file)
    language = settings.get("source_lang") or settings["lang_pairs"][0].split("-")[0]
    return os.path.join(split_paths(settings["data"])[0], f"dict.{language}.txt")
