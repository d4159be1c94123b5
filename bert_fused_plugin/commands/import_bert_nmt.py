"""Converts a checkpoint of bert-nmt, the authors' implementation (a fork of fairseq 0.6), for this package.

bert-fused-import checkpoint_best.pt --bert bert-base-uncased --output imported.pt

--bert is the BERT that the model was trained with: a Hugging Face directory (config.json with its model_type), which
is used as it is, or one of pytorch_pretrained_bert (bert_config.json, pytorch_model.bin, vocab.txt), which is
converted to a Hugging Face directory.  Nothing that a file holds is executed.  To compare translations let bert-nmt
translate one sentence at a time: it pads BERT's input on the left, so neighbours in a batch change its results.
"""

import argparse
import filecmp
import json
import logging
import os
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path
from textwrap import shorten
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedModel
from transformers.utils import logging as hf_logging

import bert_fused_plugin  # noqa: F401  registers the architectures
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.models.bert_fused.bert_nmt import Imported, bert_weights, import_bert_nmt
from fairseq_compat import checkpoint as safe_checkpoint

CONFIGS = ("bert_config.json", "config.json")
CONFIG_FIELDS = {
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size"),
    *("initializer_range", "layer_norm_eps"),
}
# The names of published models whose text bert-nmt does not lower-case; that of a directory it always does.
CASED = ("bert-base-cased", "bert-large-cased", "bert-base-multilingual-cased", "bert-base-german-cased")
REMEDY = (
    "give the BERT that the model was trained with: a Hugging Face directory, or one of pytorch_pretrained_bert with "
    "bert_config.json, pytorch_model.bin and vocab.txt"
)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Convert; all problems are reported together, and then nothing is written."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    hf_logging.disable_progress_bar()
    args = parse_args(arguments)
    convert = not _is_hugging_face(args.bert)
    bert_dir = (args.bert_output or args.output.with_name(f"{args.output.stem}-bert")) if convert else args.bert
    errors = _path_errors(args, convert)
    checkpoint = collect(errors, read_checkpoint, args.checkpoint)
    bert = collect(errors, read_bert, args.bert)
    imported: Any = None
    if checkpoint is not None:
        given = (checkpoint["args"], checkpoint["model"], os.path.abspath(bert_dir))
        imported = collect(errors, import_bert_nmt, *given, where=f"{args.checkpoint}: ")
    attends = imported is not None and imported.args.arch == "bert_fused"
    if attends and bert is not None:
        errors += bert_errors(args, checkpoint, bert.state_dict())
    raise_all(errors)

    with tempfile.TemporaryDirectory(dir=args.output.parent, prefix=".import-") as folder:
        new_bert, new_checkpoint = Path(folder) / "bert", Path(folder) / "checkpoint.pt"
        if attends and convert:
            imported.notes.append(write_bert(args, checkpoint["args"], bert, new_bert))
        check(args.checkpoint, imported, new_bert if convert else bert_dir)
        write_checkpoint(imported, new_checkpoint)
        if attends and convert:
            place(new_bert, bert_dir)
        os.replace(new_checkpoint, args.output)
    _report(args, imported)


def collect(errors: List[str], function: Callable[..., Any], *values: Any, where: str = "") -> Any:
    """Return what *function* does; where it fails, add its errors to *errors* and return None."""
    try:
        return function(*values)
    except BertFusedError as error:
        errors += [where + message.replace("--bert-model", "--bert") for message in error.errors]
        return None


def _path_errors(args: Namespace, convert: bool) -> List[str]:
    errors = []
    if args.output.is_dir() or not args.output.parent.is_dir():
        errors.append(f"--output {args.output} must be a file in an existing directory, such as NEW.pt")
    if args.output.resolve() == args.checkpoint.resolve():
        errors.append(f"--output {args.output} must be another file than the checkpoint, which is not replaced")
    given = (("--bert-output", args.bert_output), ("--bert-lower-case", args.bert_lower_case))
    errors += [
        f"{flag} is for a BERT to be converted, got {value} with --bert {args.bert}, which is a Hugging Face directory "
        "and used as it is; leave it out"
        for flag, value in given
        if value is not None and not convert
    ]
    return errors


def read_checkpoint(path: Path) -> Dict[str, Any]:
    """Return the checkpoint of bert-nmt.

    Raises:
        BertFusedError: it cannot be read, or is of something else.
    """
    remedy = "give a checkpoint of bert-nmt, such as its checkpoint_best.pt"
    checkpoint = _read_pickle(path, remedy)
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        raise BertFusedError(f"{path} is no fairseq checkpoint; {remedy}")
    if not isinstance(checkpoint.get("args"), Namespace):
        raise BertFusedError(
            f"{path} is no checkpoint of bert-nmt: it has no 'args', as those of fairseq 0.6 do; models of this "
            "package and of fairseq need no import"
        )
    if not any(key.startswith("bert_encoder.") or ".bert_attn." in key for key in checkpoint["model"]):
        raise BertFusedError(
            f"{path} is no checkpoint of bert-nmt: no weight is named bert_encoder.* or *.bert_attn.*; models of "
            "fairseq need no import, and a BERT-fused model begins with one by --bert-warm-start"
        )
    return checkpoint


def _read_pickle(path: Path, remedy: str) -> Any:
    try:
        with open(path, "rb") as file:
            return safe_checkpoint.load(file, map_location="cpu")
    except (OSError, safe_checkpoint.CheckpointError) as error:
        raise BertFusedError(f"{path} cannot be read ({error}); {remedy}") from error


def _is_hugging_face(directory: Path) -> bool:
    try:
        return "model_type" in json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def read_bert(directory: Path) -> PreTrainedModel:
    """Return the BERT in a directory of either kind.

    Raises:
        BertFusedError: there is none, or it is damaged.
    """
    if _is_hugging_face(directory):
        return FrozenBert.from_pretrained(str(directory)).model
    if not directory.is_dir():
        raise BertFusedError(f"--bert {directory}: no such directory; {REMEDY}")
    config = next((directory / name for name in CONFIGS if (directory / name).is_file()), directory / CONFIGS[0])
    files = (config, directory / "pytorch_model.bin", directory / "vocab.txt")
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise BertFusedError(f"--bert {directory} has no {' and no '.join(missing)}; {REMEDY}")
    state = _read_pickle(files[1], REMEDY)
    try:
        given = json.loads(config.read_text(encoding="utf-8"))
        model = BertModel(BertConfig(**{name: given[name] for name in CONFIG_FIELDS & set(given)}))
        wrong = model.load_state_dict(current_names(state), strict=False)
        keys = [key for key in (*wrong.missing_keys, *wrong.unexpected_keys) if not key.startswith("pooler.")]
        if keys:
            raise KeyError(f"{keys[0]} is missing or unknown")
    except Exception as error:  # a damaged file can raise anything
        raise BertFusedError(f"--bert {directory} cannot be used [{shorten(str(error), 600)}]; {REMEDY}") from error
    return model


def current_names(state: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return BERT's weights by the names of today, without the heads of its pre-training."""
    prefix = "bert." if any(key.startswith("bert.") for key in state) else ""
    result = {}
    for key, value in state.items():
        if key.startswith(prefix) and not key.endswith("position_ids"):
            name = key[len(prefix) :].replace("LayerNorm.gamma", "LayerNorm.weight")
            result[name.replace("LayerNorm.beta", "LayerNorm.bias")] = value
    return result


def bert_errors(args: Namespace, checkpoint: Dict[str, Any], bert: Dict[str, Tensor]) -> List[str]:
    """Say where *bert*, of --bert, is not the BERT of the checkpoint."""
    flags = {"bert_output_layer": -1, "finetune_bert": False, "bert_model_name": None, **vars(checkpoint["args"])}
    which = f"give the BERT that the model was trained with (args.bert_model_name {flags['bert_model_name']})"
    given = {key: value for key, value in bert.items() if not key.startswith("pooler.")}
    saved = bert_weights(checkpoint["model"])
    depth, layer = len({key.split(".")[2] for key in given if ".layer." in key}), flags["bert_output_layer"]
    errors = []
    if not -depth <= layer < depth:
        errors.append(
            f"{args.checkpoint}: args.bert_output_layer is {layer}, but --bert {args.bert} has {depth} layers"
        )
    if not saved:  # taken out of the checkpoint: only the width is seen, when the model is built
        return errors
    sizes = [{key: tuple(value.shape) for key, value in weights.items()} for weights in (given, saved)]
    other = sorted(key for key in {*given, *saved} if sizes[0].get(key) != sizes[1].get(key))
    if other:
        seen = " and ".join(str(size.get(other[0], "missing")) for size in sizes)
        errors.append(
            f"--bert {args.bert} is another model than the BERT of {args.checkpoint}: {len(other)} weights differ in "
            f"size, {other[0]}: {seen}; {which}"
        )
    elif not flags["finetune_bert"]:
        # a training in half precision rounded what it saved
        gaps = {key: (given[key].to(saved[key].dtype) - saved[key]).abs().max().item() for key in saved}
        changed = [key for key, gap in gaps.items() if not gap <= 1e-6]
        if changed:
            errors.append(
                f"--bert {args.bert} is not the BERT of {args.checkpoint}, which was not fine-tuned "
                f"(args.finetune_bert): {len(changed)} of {len(saved)} weights differ, {changed[0]} by up to "
                f"{gaps[changed[0]]:.2g}; {which}"
            )
    return errors


def write_bert(args: Namespace, flags: Namespace, bert: PreTrainedModel, directory: Path) -> str:
    """Write *bert* with its tokenizer as a Hugging Face directory; return what its user should know."""
    name = vars(flags).get("bert_model_name", args.bert.name)
    lower_case = name not in CASED if args.bert_lower_case is None else args.bert_lower_case == "yes"
    bert.save_pretrained(directory)
    with open(args.bert / "vocab.txt", encoding="utf-8") as lines:
        vocabulary = [line.strip() for line in lines]  # as bert-nmt reads it
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary), encoding="utf-8")
    limit = bert.config.max_position_embeddings
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower_case, "model_max_length": limit}
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    why = "--bert-lower-case" if args.bert_lower_case else f"as bert-nmt does for {name}; see --bert-lower-case"
    return f"the tokenizer of the converted BERT {'lower-cases' if lower_case else 'does not lower-case'} text ({why})"


def place(new: Path, directory: Path) -> None:
    """Move *new* to *directory*, unless an earlier import has left the same there."""
    names = [path.name for path in new.iterdir()]
    if not directory.exists():
        shutil.move(new, directory)
    elif len(filecmp.cmpfiles(new, directory, names, shallow=False)[0]) < len(names):
        raise BertFusedError(f"--bert-output {directory} exists and is not this BERT, converted; name a new directory")


def check(path: Path, imported: Imported, bert_model: Path) -> None:
    """Build the new model and load the new weights.

    Raises:
        BertFusedError: they do not fit.
    """
    task = SimpleNamespace(cfg=SimpleNamespace(source_lang=None))
    for side, name in (("encoder", "source_dictionary"), ("decoder", "target_dictionary")):
        dictionary = Dictionary()
        for i in range(len(imported.model.get(f"{side}.embed_tokens.weight", ())) - len(dictionary)):
            dictionary.add_symbol(f"symbol{i}")
        vars(task)[name] = dictionary
    args = Namespace(**{**vars(imported.args), "bert_model": os.path.abspath(bert_model)})
    try:
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
        model.load_state_dict(dict(imported.model), strict=True)
    except Exception as error:  # a damaged file can raise anything
        reason = shorten(str(error), 600)
        raise BertFusedError(f"{path}: its args and its weights do not make one model [{reason}]") from error


def write_checkpoint(imported: Imported, path: Path) -> None:
    """Write what fairseq asks for; of the training nothing is carried over."""
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    checkpoint = {"args": imported.args, "model": imported.model, "optimizer_history": [history]}
    torch.save({**checkpoint, "extra_state": {"train_iterator": {"epoch": 1}}, "last_optimizer_state": None}, path)


def _report(args: Namespace, imported: Imported) -> None:
    names = ("model", "fusion", "stack_order", "attend", "gates", "branch_weights", "drop_net", "layer", "finetune")
    values = {name: vars(imported.args).get(f"bert_{name}") for name in (*names, "mask_special_tokens")}
    flags = [f"--bert-{k.replace('_', '-')} {v}" for k, v in values.items() if v is not None and v is not False]
    print(f"wrote {args.output}: --arch {imported.args.arch}", *flags)
    for note in imported.notes:
        print(f"note: {note}")
    if imported.args.arch == "transformer":
        print(f"use: fairseq-generate DATA --path {args.output}")
        return
    print(
        f"use: fairseq-generate DATA --path {args.output} --user-dir bert_fused_plugin --task bert_fused_translation "
        "--bert-text DIR\nDATA is the data-bin of bert-nmt, DIR/{split}.{lang} is its {split}.bert.{lang}.  Without "
        "--bert-text the text is derived from DATA."
    )


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="checkpoint of bert-nmt")
    parser.add_argument("--bert", type=Path, required=True, help="directory of the BERT that it was trained with")
    parser.add_argument("--output", type=Path, required=True, help="checkpoint to write")
    parser.add_argument("--bert-output", type=Path, help="directory for the converted BERT; default: OUTPUT-bert")
    parser.add_argument("--bert-lower-case", choices=("yes", "no"), help="of the converted BERT; default: as bert-nmt")
    return parser.parse_args(argv)
