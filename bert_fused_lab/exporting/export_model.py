"""Writes a model as one directory that can be moved: model.pt, dictionaries, subword codes and, on request, BERT.

    bert-fused-export checkpoints/checkpoint_best.pt data-bin --output my-model --codes codes --with-bert

model.pt is the checkpoint without optimizer state and without paths of this machine.  fairseq-interactive takes the
directory as its data directory, and fairseq's hub interface takes it as a model; the README in it says how.  A BERT
that was fine-tuned is taken out of the checkpoint and put, with its trained weights, into the directory bert.  As a
check, the model is loaded from the new directory before the directory gets its name.

``bert-fused-export hf CHECKPOINT OUT`` writes a plain transformer that began as an imported model for transformers;
``bert-fused-export hf --help`` describes it.
"""

import logging
import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq import hub_utils
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import split_paths
from transformers import AutoModel
from transformers.utils import cached_file
from transformers.utils import logging as hf_logging

from bert_fused_lab.arguments import given_path, parser_of, user_module
from bert_fused_lab.exporting import export_hf
from bert_fused_lab.exporting.subword_tool import FLAGS, Files, check_tool, choose_tool
from bert_fused_lab.finished import training_defaults, without_folders, without_training_state
from bert_fused_lab.output import directory_errors, written_output
from bert_fused_plugin.bert.flags import BertFlags
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert, load_tokenizer
from bert_fused_plugin.bert.source import weights_fingerprint
from bert_fused_plugin.checkpoints.reading import read_checkpoint, require_architecture
from bert_fused_plugin.checkpoints.record import BERT_RECORD, JsonRecord, read_json
from bert_fused_plugin.data.dictionary_bridge import detect_detok
from bert_fused_plugin.data.subwords import bleu_tokenizer, detect_subword, language_code
from bert_fused_plugin.data.typed_text import hyphen_warning
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all
from bert_fused_plugin.models.hub import bpe_files
from bert_fused_plugin.models.translation_model import TranslationModel

logger = logging.getLogger(__name__)

BERT = "./bert"  # see `bert_fused_plugin.bert.from_flags.locate_bert`
_TEXT_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_VECTORS = ("encoder_embed_path", "decoder_embed_path")  # these files are read only when a training begins
_BATCHES = {"max_tokens": 12_000, "batch_size": None}  # as fairseq-generate has them by default
_PACKAGE = "bert_fused_plugin"
_README = """\
# {pair}: a translation model of fairseq with bert_fused_plugin

Move or rename this directory as you like; keep its files together.  It translates {text}.
In Python:

    from bert_fused_plugin.models.hub import load_hub
    load_hub("DIR"{in_python}).translate(["..."])

On the command line:

    fairseq-interactive DIR --path DIR/model.pt --user-dir {plugin} --task {task} \\
        {flags}
"""


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Write the directory, and print what is in it."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    hf_logging.disable_progress_bar()
    args = parse_args(arguments)
    if "imported" in args:
        export_hf.run(args)
        return
    subword_files = {"subword_nmt": args.codes, "sentencepiece": args.sentencepiece_model}
    files = {tool: file for tool, file in subword_files.items() if file is not None}
    moses = {"moses_no_dash_splits": args.moses_no_dash_splits, "moses_no_escape": args.moses_no_escape}
    if args.tokenizer != "moses" and any(moses.values()):
        raise BertFusedError("--moses-no-dash-splits and --moses-no-escape need --tokenizer moses; add it")
    tokenizer = args.tokenizer and {"_name": args.tokenizer, **(moses if args.tokenizer == "moses" else {})}
    bert = export_model(
        args.checkpoint, args.data, args.output, files, tokenizer, with_bert=args.with_bert, bert_model=args.bert_model
    )
    print(f"wrote {args.output}:")
    for path in sorted(path for path in args.output.rglob("*") if path.is_file()):
        print(f"{path.stat().st_size:>14,}  {path.relative_to(args.output)}")
    if bert is not None and not args.with_bert:
        print(f"note: the directory does not hold BERT, which is read from {bert}; --with-bert adds it")


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["hf"]:
        return export_hf.parse_args(words[1:])
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("checkpoint", type=given_path, help="checkpoint of fairseq-train")
    add("data", help="data directory that the model was trained on, for its dictionaries")
    add("--output", type=given_path, required=True, metavar="DIR", help="directory to write, which is new or empty")
    subwords = parser.add_mutually_exclusive_group().add_argument
    subwords("--codes", type=given_path, metavar="FILE", help="file with the codes of subword-nmt, to split raw text")
    subwords("--sentencepiece-model", type=given_path, metavar="FILE", help="sentencepiece model, to split raw text")
    add("--tokenizer", choices=("moses", "nltk", "space"), help="tokenizer of the training data")
    add("--moses-no-dash-splits", action="store_true",
        help="the training data was tokenised without -a; default: what the source dictionary shows")  # fmt: skip
    add("--moses-no-escape", action="store_true", help="the training data was tokenised with -no-escape")
    add("--with-bert", action="store_true", help="put BERT into the directory")
    add("--bert-model", metavar="NAME_OR_DIR", help="name or directory of BERT; default: that of the training")
    add("--user-dir", type=user_module, metavar="DIR", help="plug-in that has the architecture of a model")
    return parser.parse_args(words)


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
    """Write a translation model of fairseq as the new or empty directory *output*; return where it expects BERT.

    Args:
        data: data directory that the model was trained on.
        subword_files: file of the tool that splits words, by the tool's name in fairseq: ``subword_nmt`` or
            ``sentencepiece``; default: those of the training.
        tokenizer: settings of fairseq's ``--tokenizer``, with its name as ``_name``; default: those of the training.
        with_bert: whether BERT is added; a fine-tuned BERT is then frozen.
        bert_model: place of BERT, if it is not the same as at training.

    Raises:
        BertFusedError: Parts are missing or do not fit, or the directory cannot be written.
    """
    trained = _read_translation_model(checkpoint, data, bert_model)
    state = without_training_state(trained)
    cfg = state["cfg"]
    settings = vars(cfg["model"]) if isinstance(cfg["model"], Namespace) else cfg["model"]
    if os.path.isdir(settings.get("bert_model") or ""):
        settings["bert_model"] = os.path.abspath(settings["bert_model"])  # the new directory is used from anywhere
    errors = _setting_errors(checkpoint, output, settings.get("bert_model"), with_bert)
    cfg["bpe"], files = choose_tool(cfg["bpe"], subword_files or {}, errors)
    raise_all(errors)
    [model], _, task = load_model_ensemble_and_task([str(checkpoint)], state=trained)
    _translate_text(cfg, model, task, tokenizer)
    _make_movable(cfg, {"data": ".", **{setting: cfg["bpe"][setting] for setting in files}})
    with written_output(output) as new:
        new.mkdir()
        if with_bert:
            _add_bert(new, state, settings, model)
        _write_files(new, data, state, files)
        loaded = hub_utils.from_pretrained(str(new), **bpe_files(str(new)))
        if files:
            check_tool(loaded["args"].bpe, files, task, split_paths(data)[0])
    return settings.get("bert_model")


def _read_translation_model(checkpoint: Path, data: str, bert_model: Optional[str]) -> Dict[str, Any]:
    """Return the *checkpoint*, without settings that only its training needs and without names of folders.

    Raises:
        BertFusedError: It cannot be read, or it is a model of another kind.
    """
    bert = {} if bert_model is None else {"bert_model": bert_model}
    overrides = {**training_defaults(), **dict.fromkeys(_VECTORS), **bert, "data": data}
    trained = read_checkpoint(checkpoint, overrides)
    require_architecture(checkpoint, trained)
    task = trained["cfg"].task._name
    if not issubclass(TASK_REGISTRY.get(task, object), TranslationTask):
        raise BertFusedError(
            f"{checkpoint} is a model of --task {task}, but only translation models can be exported; give a checkpoint "
            "of --task translation or --task bert_fused_translation"
        )
    return {**trained, "model": without_folders(trained["model"])}


def _setting_errors(checkpoint: Path, output: Path, bert: Optional[str], with_bert: bool) -> List[str]:
    """Return a sentence if *output* cannot be a new directory, and one if it cannot have, or cannot lack, a BERT."""
    errors = directory_errors("--output", output)
    if with_bert and bert is None:
        errors.append(f"--with-bert: {checkpoint} is a model without BERT; leave --with-bert out")
    if not with_bert and bert is not None and bert.startswith("./") and not os.path.isdir(bert):
        errors.append(
            f"{checkpoint} reads BERT from {bert} in its own directory, which the new directory would not have; add "
            "--with-bert, which copies it, or say with --bert-model where BERT is"
        )
    return errors


def _translate_text(cfg: Dict[str, Any], model: Any, task: Any, tokenizer: Optional[Dict[str, Any]]) -> None:
    """Write settings into *cfg* with which fairseq's hub interface translates raw text, and loses no line of it.

    fairseq has read the languages from names of data files, which the directory lacks.  Batches have another size than
    in training.  Models of this package that were trained with fairseq's task get this package's: it cuts a line that
    is too long for the model, where fairseq's refuses it together with all other lines.  Moses' tokenizer splits
    hyphens only if those of the training text were split.
    """
    marks = detect_subword(task.source_dictionary)
    if cfg["bpe"] is None and marks != "none":
        logger.warning(
            f"the source dictionary has the subword marks of {marks}, but the model is exported without its subword "
            f"tool, so it translates only text that is split already; give {' or '.join(FLAGS.values())}"
        )
    languages = {"source_lang": task.cfg.source_lang, "target_lang": task.cfg.target_lang}
    cfg["task"].update(languages)
    cfg["dataset"] = {**(cfg.get("dataset") or {}), **_BATCHES}
    if isinstance(model, TranslationModel) and cfg["task"]["_name"] == "translation":
        cfg["task"]["_name"] = "bert_fused_translation"
    if tokenizer is not None:
        cfg["tokenizer"] = dict(tokenizer)
    chosen = cfg["tokenizer"]
    if chosen is None and detect_detok(task.source_dictionary) == "moses":
        logger.warning(
            "the source dictionary has symbols of Moses' tokenizer, such as &apos;, but the model is exported without "
            "its tokenizer, so it translates only text that is tokenised already; give --tokenizer moses"
        )
    if chosen is None or chosen["_name"] != "moses":
        return
    chosen.update({side: language_code(lang) for side, lang in languages.items()})  # Moses takes fr_CA for English
    no_dash_splits = chosen.get("moses_no_dash_splits", False)
    warning = hyphen_warning(no_dash_splits, task.source_dictionary)
    if warning is not None:
        logger.warning(warning if no_dash_splits else f"{warning}, which the exported model has now")
        chosen["moses_no_dash_splits"] = True


def _make_movable(cfg: Dict[str, Any], values: Dict[str, str]) -> None:
    """Give settings these *values*; of each other path of this machine keep the last part, except of that of BERT."""
    for key, value in cfg.items():
        if isinstance(value, (dict, Namespace)):
            _make_movable(value if isinstance(value, dict) else vars(value), values)
        elif key in values:
            cfg[key] = values[key]
        elif isinstance(value, str) and os.path.isabs(value) and key != "bert_model":
            cfg[key] = os.path.basename(os.path.normpath(value))


def _write_files(directory: Path, data: str, state: Dict[str, Any], files: Files) -> None:
    """Write *state*, the dictionaries, the files of the subword tool, and a README."""
    torch.save(state, directory / "model.pt")
    cfg = state["cfg"]
    languages = (cfg["task"]["source_lang"], cfg["task"]["target_lang"])
    for name in (f"dict.{language}.txt" for language in languages):
        shutil.copyfile(os.path.join(split_paths(data)[0], name), directory / name)
    for path, name in files.values():
        shutil.copyfile(path, directory / name)
    flags = ["-s {} -t {}".format(*languages)]
    for tool in ("tokenizer", "bpe"):
        if cfg[tool] is not None:
            flags += [f"--{tool} {cfg[tool]['_name']}"]
            flags += [flag_name(name) for name, value in cfg[tool].items() if value is True]
    flags += [f"{flag_name(setting)} DIR/{name}" for setting, (_, name) in files.items()]
    pair = "-".join(languages)
    plugin = os.path.basename(os.path.normpath(cfg["common"]["user_dir"] or _PACKAGE))
    text = _README.format(
        pair=pair,
        text=text_form(cfg, languages[0]),
        in_python="" if plugin == _PACKAGE else f', user_dir="{plugin}"',
        plugin=plugin,
        task=cfg["task"]["_name"],
        flags=" ".join(flags),
    )
    # fairseq takes the languages from the name of such a file if they are not given.
    (directory / f"README.{pair}.md").write_text(text, encoding="utf-8")


def text_form(cfg: Dict[str, Any], language: str) -> str:
    """Return what a model with the settings *cfg* translates, whose source is in *language*."""
    if cfg["bpe"] is None:
        return "text in the form of the training text, such as in subwords"
    if cfg["bpe"]["_name"] in ("subword_nmt", "fastbpe") and bleu_tokenizer(language) is not None:
        return "text whose words are separated by spaces as in the training text"
    return "raw text"


def _add_bert(directory: Path, state: Dict[str, Any], settings: Dict[str, Any], model: Any) -> None:
    """Write BERT into *directory*, and change the checkpoint *state* and the *settings* of *model* to name it.

    A fine-tuned BERT is then no longer in the checkpoint, and the model has a frozen BERT.
    """
    defaults = {name: getattr(BertFlags, name) for name in ("bert_finetune", "bert_finetune_layers", "bert_lr_factor")}
    settings.update(bert_model=BERT, **defaults)
    bert, present = model.encoder.source.bert, model.encoder.source.record.content
    save_bert(bert, directory / BERT)
    # The record is that of the model's own BERT, so that loading notices a directory with another one.
    record = {
        **present,
        "given": (read_json(state["model"], BERT_RECORD) or present)["given"],
        "name": os.path.basename(os.path.abspath(bert.name)) if os.path.isdir(bert.name) else bert.name,
        "weights_in_layers": weights_fingerprint(bert),
    }
    weights = {name: value for name, value in state["model"].items() if not name.startswith("encoder.bert.")}
    state["model"] = {**weights, BERT_RECORD: JsonRecord(record).text}


def save_bert(bert: PretrainedBert, directory: Path) -> None:
    """Write *bert* to *directory*: its weights as safetensors, and copies of its configuration and tokenizer files."""
    # A model of the hub has been loaded before, so all of its files are in the local cache.
    model = AutoModel.from_pretrained(bert.name, torch_dtype=torch.float32, local_files_only=True)
    encoder, weights = model, model.state_dict()
    if type(model) is not type(bert.model):  # BERT is the encoder of a model with a decoder, which is not used
        encoder = model.get_encoder()
        weights = {name: weight for name, weight in weights.items() if not name.startswith("decoder.")}
    encoder.load_state_dict(bert.weights(), strict=False)  # they lack the pooler, which is never used
    model.save_pretrained(directory, state_dict=weights)
    names = load_tokenizer(bert.name).vocab_files_names.values()
    for name in {"config.json", *_TEXT_FILES, *names}:
        source = cached_file(bert.name, name, local_files_only=True, _raise_exceptions_for_missing_entries=False)
        if source is not None:
            shutil.copyfile(source, directory / name)
