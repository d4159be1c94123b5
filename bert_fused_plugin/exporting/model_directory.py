"""Writes a trained model as one directory that can be moved, with dictionaries, subword codes and BERT."""

import logging
import os
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch
from fairseq import hub_utils
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import split_paths

from bert_fused_plugin.bert.record import without_folders
from bert_fused_plugin.checkpoints.reading import read_checkpoint, without_training_state
from bert_fused_plugin.data.subwords import detect_subword
from bert_fused_plugin.data.typed_text import hyphen_warning
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all
from bert_fused_plugin.exporting.bert_directory import BERT, name_bert, save_bert
from bert_fused_plugin.exporting.subword_tool import (
    FLAGS,
    Files,
    check_tool,
    choose_tool,
    name_files,
    readme_flags,
    source_text,
)
from bert_fused_plugin.files import written_output
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.models.hub import gpt2_files
from bert_fused_plugin.tasks.bert_fused_translation_config import training_defaults

logger = logging.getLogger(__name__)

_VECTORS = ("encoder_embed_path", "decoder_embed_path")  # these files are read only when a training begins
_BATCHES = {"max_tokens": 12_000, "batch_size": None}  # as fairseq-generate has them by default
_README = """\
# {pair}: a translation model of fairseq with bert_fused_plugin

Move or rename this directory as you like; keep its files together.  In Python:

    from {module} import {model}
    {model}.from_pretrained("DIR").translate(["..."])

On the command line:

    fairseq-interactive DIR --path DIR/model.pt --user-dir bert_fused_plugin --task bert_fused_translation \\
        {flags}
"""


def export_model(
    checkpoint: Path,
    data: str,
    output: Path,
    subword_files: Optional[Dict[str, Path]] = None,
    tokenizer: Optional[Dict[str, Any]] = None,
    *,
    with_bert: bool = False,
    bert_model: Optional[str] = None,
) -> Optional[str]:
    """Write a model as the directory *output*; return the place where it expects BERT, or None without BERT.

    Args:
        checkpoint: checkpoint of any model of fairseq.
        data: data directory that the model was trained on.
        output: new or empty directory.
        subword_files: file of the tool that splits words, by the tool's name in fairseq: ``subword_nmt`` or
            ``sentencepiece``; default: those of the training.
        tokenizer: settings of fairseq's ``--tokenizer``, with its name as ``_name``; default: those of the training.
        with_bert: whether BERT is added; a fine-tuned BERT is then frozen.
        bert_model: place of BERT, if it is not the same as at training.

    Raises:
        BertFusedError: Parts are missing or do not fit, or the directory cannot be written.
    """
    trained = _read_translation_model(checkpoint, data, {} if bert_model is None else {"bert_model": bert_model})
    state = without_training_state(trained)
    cfg, settings = state["cfg"], _model_settings(state)
    errors = [*_output_errors(output), *_bert_errors(checkpoint, settings.get("bert_model"), with_bert)]
    cfg["bpe"], files = choose_tool(cfg["bpe"], subword_files or {}, errors)
    raise_all(errors)
    [model], _, task = load_model_ensemble_and_task([str(checkpoint)], state=trained)
    _prepare(cfg, settings, model, task, tokenizer)
    state["model"] = without_folders(state["model"])
    with written_output(output) as new:
        new.mkdir()
        for path, name in [*_dictionaries(data, task), *files]:
            shutil.copyfile(path, new / name)
        if with_bert:
            save_bert(model.encoder.bert, new / BERT)
            name_bert(state, settings, model)
        torch.save(state, new / "model.pt")
        _write_readme(new, model, cfg)
        _check(new, data, task, files)
    return settings.get("bert_model")


def _model_settings(state: Dict[str, Any]) -> Dict[str, Any]:
    """Return the flags of the model in a *state* of `without_training_state`, as a dictionary that may be changed."""
    settings = state["cfg"]["model"]
    return vars(settings) if isinstance(settings, Namespace) else settings


def _read_translation_model(checkpoint: Path, data: str, overrides: Dict[str, Any]) -> Dict[str, Any]:
    """Return the *checkpoint*, without settings that only its training needs.

    Raises:
        BertFusedError: It cannot be read, or it is a model of another kind.
    """
    overrides = {**training_defaults(), **dict.fromkeys(_VECTORS), **overrides, "data": data}
    trained = read_checkpoint(checkpoint, overrides)
    task = trained["cfg"].task._name
    if not issubclass(TASK_REGISTRY.get(task, object), TranslationTask):
        raise BertFusedError(
            f"{checkpoint} is a model of --task {task}, but only translation models can be exported; give a checkpoint "
            "of --task translation or --task bert_fused_translation"
        )
    return trained


def _prepare(
    cfg: Dict[str, Any], settings: Dict[str, Any], model: Any, task: Any, tokenizer: Optional[Dict[str, Any]]
) -> None:
    """Change *cfg* and the *settings* of the *model* in it so that the model can be moved, and translates text."""
    _warn_without_subwords(cfg["bpe"], task.source_dictionary)
    _set_languages(cfg, task, tokenizer)
    _translate_any_line(cfg, model)
    name_files(settings, cfg["bpe"])
    _make_movable(cfg)


def _check(directory: Path, data: str, task: Any, subword_files: Files) -> None:
    """Load the model from *directory* as the hub interface does; its subword tool must split as that of the training.

    Raises:
        BertFusedError: The model cannot be loaded, or has another subword tool.
    """
    loaded = hub_utils.from_pretrained(str(directory), **gpt2_files(str(directory)))
    if subword_files:
        languages, dictionary = (task.cfg.source_lang, task.cfg.target_lang), task.source_dictionary
        text = source_text(split_paths(data)[0], *languages, dictionary)
        check_tool(loaded["args"].bpe, subword_files, dictionary, text)


def _dictionaries(data: str, task: Any) -> Files:
    names = [f"dict.{language}.txt" for language in (task.cfg.source_lang, task.cfg.target_lang)]
    return [(Path(split_paths(data)[0]) / name, name) for name in names]


def _output_errors(output: Path) -> List[str]:
    if not output.parent.is_dir():
        return [f"--output {output}: {output.parent} is no directory; make it first"]
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        return [f"--output {output} exists and is not empty; name a new directory, or remove this one first"]
    return []


def _bert_errors(checkpoint: Path, bert: Optional[str], with_bert: bool) -> List[str]:
    """Return a sentence if the directory is to have a BERT that there is not, or lacks one that no other place has."""
    if with_bert and bert is None:
        return [f"--with-bert: {checkpoint} is a model without BERT; leave --with-bert out"]
    if not with_bert and bert is not None and bert.startswith("./") and not os.path.isdir(bert):
        return [
            f"{checkpoint} reads BERT from {bert} in its own directory, which the new directory would not have; add "
            "--with-bert, which copies it, or say with --bert-model where BERT is"
        ]
    return []


def _warn_without_subwords(bpe: Optional[Dict[str, Any]], dictionary: Dictionary) -> None:
    marks = detect_subword(dictionary)
    if bpe is None and marks != "none":
        logger.warning(
            f"the source dictionary has the subword marks of {marks}, but the model is exported without its subword "
            f"tool, so it translates only text that is split already; give {' or '.join(FLAGS)}"
        )


def _set_languages(cfg: Dict[str, Any], task: Any, tokenizer: Optional[Dict[str, Any]]) -> None:
    """Write languages and tokenizer into *cfg*.

    fairseq has read the languages from names of data files that the directory lacks.  Moses' tokenizer splits hyphens
    only if those of the training text were split.
    """
    languages = {"source_lang": task.cfg.source_lang, "target_lang": task.cfg.target_lang}
    cfg["task"].update(languages)
    if tokenizer is not None:
        cfg["tokenizer"] = {**languages, **tokenizer}
    chosen = cfg["tokenizer"]
    if chosen is None or chosen["_name"] != "moses":
        return
    no_dash_splits = chosen.get("moses_no_dash_splits", False)
    warning = hyphen_warning(no_dash_splits, task.source_dictionary)
    if warning is not None and no_dash_splits:
        logger.warning(warning)
    elif warning is not None:
        chosen["moses_no_dash_splits"] = True
        logger.warning(f"{warning}, which the exported model has now")


def _translate_any_line(cfg: Dict[str, Any], model: Any) -> None:
    """Write settings into *cfg* with which fairseq's hub interface loses no line, however long it is.

    The size of batches is not that of the training, and the models of this package have its task, which cuts a line
    that is too long for the model, where fairseq's own task refuses it together with all other lines.
    """
    cfg["dataset"] = {**(cfg.get("dataset") or {}), **_BATCHES}
    if isinstance(model, (BertFusedModel, GruModel)):
        cfg["task"]["_name"] = "bert_fused_translation"


def _make_movable(cfg: Dict[str, Any]) -> None:
    """Keep only the last part of each path of this machine, except the path of BERT."""
    for key, value in cfg.items():
        if isinstance(value, (dict, Namespace)):
            _make_movable(value if isinstance(value, dict) else vars(value))
        elif key == "data":
            cfg[key] = "."
        elif isinstance(value, str) and os.path.isabs(value) and key != "bert_model":
            cfg[key] = os.path.basename(os.path.normpath(value))


def _write_readme(directory: Path, model: Any, cfg: Dict[str, Any]) -> None:
    pair = "{source_lang}-{target_lang}".format(**cfg["task"])
    flags = ["-s {source_lang} -t {target_lang}".format(**cfg["task"])]
    if cfg["tokenizer"] is not None:
        flags += [f"--tokenizer {cfg['tokenizer']['_name']}"]
        flags += [flag_name(name) for name, value in cfg["tokenizer"].items() if value is True]
    flags += readme_flags(cfg["bpe"])
    kind = type(model)
    text = _README.format(pair=pair, module=kind.__module__, model=kind.__name__, flags=" ".join(flags))
    # fairseq takes the languages from the name of such a file if they are not given.
    (directory / f"README.{pair}.md").write_text(text, encoding="utf-8")
