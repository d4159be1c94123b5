"""Converts a checkpoint of bert-nmt, the authors' implementation (a fork of fairseq 0.6), into one of this package.

bert-fused-import checkpoint_best.pt --bert bert-base-uncased --output imported.pt

--bert is the BERT that the model was trained with: a Hugging Face directory (config.json with its model_type), which
is used as it is, or one of pytorch_pretrained_bert (bert_config.json, pytorch_model.bin, vocab.txt), which is
converted to a Hugging Face directory.  Nothing that a file holds is executed.  To compare translations, let bert-nmt
translate one sentence at a time: it pads BERT's input on the left, so its results depend on the other sentences
of a batch.
"""

import filecmp
import logging
import os
import shutil
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence

from transformers.utils import logging as hf_logging

import bert_fused_plugin  # noqa: F401  registers the architectures
from bert_fused_plugin.commands import output_errors
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all
from bert_fused_plugin.files import given_path, written_output
from bert_fused_plugin.importing.checkpoint import (
    Imported,
    bert_errors,
    check_imported,
    import_bert_nmt,
    read_bert_nmt,
    write_imported,
)
from bert_fused_plugin.importing.pytorch_pretrained_bert import (
    CASED,
    is_hugging_face,
    read_bert_directory,
    write_hugging_face,
)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Convert the checkpoint; if there are errors, report all of them together and write nothing."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    hf_logging.disable_progress_bar()
    args = parse_args(arguments)
    convert = not is_hugging_face(args.bert)
    bert_dir = (args.bert_output or args.output.with_name(f"{args.output.stem}-bert")) if convert else args.bert
    errors = _path_errors(args, convert)
    checkpoint = _collect(errors, "", read_bert_nmt, args.checkpoint)
    bert = _collect(errors, "", read_bert_directory, args.bert)
    imported: Optional[Imported] = None
    if checkpoint is not None:
        given = (checkpoint["args"], checkpoint["model"], os.path.abspath(bert_dir))
        imported = _collect(errors, f"{args.checkpoint}: ", import_bert_nmt, *given)
    attends = imported is not None and imported.args.arch == "bert_fused"
    if attends and bert is not None:
        errors += bert_errors(args.checkpoint, checkpoint, args.bert, bert)
    raise_all(errors)
    assert imported is not None  # there would be an error

    with written_output(args.output) as new:
        new_bert = new.with_name(f"{new.name}-bert") if attends and convert else None
        if new_bert is not None:
            name = vars(checkpoint["args"]).get("bert_model_name", args.bert.name)
            lower_case = name not in CASED if args.bert_lower_case is None else args.bert_lower_case == "yes"
            write_hugging_face(bert, args.bert, new_bert, lower_case=lower_case)
            why = "--bert-lower-case" if args.bert_lower_case else f"as bert-nmt does for {name}; see --bert-lower-case"
            does = "lower-cases" if lower_case else "does not lower-case"
            imported.notes.append(f"the tokenizer of the converted BERT {does} text ({why})")
        check_imported(args.checkpoint, imported, new_bert or bert_dir)
        write_imported(imported, new)
        if new_bert is not None:
            _place(new_bert, bert_dir)
    _report(args, imported)


def _collect(errors: List[str], where: str, function: Callable[..., Any], *values: Any) -> Any:
    """Return *function* of *values*; if it fails, add its errors, which begin with *where*, and return None."""
    try:
        return function(*values)
    except BertFusedError as error:
        errors += [where + message.replace("--bert-model", "--bert") for message in error.errors]
        return None


def _path_errors(args: Namespace, convert: bool) -> List[str]:
    errors = output_errors(output=args.output)
    if args.output.resolve() == args.checkpoint.resolve():
        errors.append(f"--output {args.output} must be another file than the checkpoint, which is not replaced")
    given = {"--bert-output": args.bert_output, "--bert-lower-case": args.bert_lower_case}
    return errors + [
        f"{flag} is for a BERT that is converted, got {value} with --bert {args.bert}, which is a Hugging Face "
        f"directory and is used as it is; leave {flag} out"
        for flag, value in given.items()
        if value is not None and not convert
    ]


def _place(new: Path, directory: Path) -> None:
    """Move *new* to *directory*, unless an earlier import has written the same files there."""
    names = [path.name for path in new.iterdir()]
    if not directory.exists():
        shutil.move(new, directory)
    elif len(filecmp.cmpfiles(new, directory, names, shallow=False)[0]) < len(names):
        raise BertFusedError(f"--bert-output {directory} exists and holds other files; name a new directory")


def _report(args: Namespace, imported: Imported) -> None:
    ours = {name: value for name, value in vars(imported.args).items() if name.startswith("bert_")}
    flags = [f"{flag_name(name)} {value}" for name, value in ours.items() if value is not None and value is not False]
    print(f"wrote {args.output}: --arch {imported.args.arch}", *flags)
    for note in imported.notes:
        print(f"note: {note}")
    use = f"use: fairseq-generate DATA --path {args.output}"
    if imported.args.arch == "transformer":
        print(use)
        return
    print(f"{use} --user-dir bert_fused_plugin --task bert_fused_translation --bert-text DIR")
    print(
        "DATA is the data-bin of bert-nmt, DIR/{split}.{lang} is its {split}.bert.{lang}.  Without --bert-text the text"
    )
    print("is derived from DATA.")


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("checkpoint", type=given_path, help="checkpoint of bert-nmt")
    add("--bert", type=given_path, required=True, help="directory of the BERT that the model was trained with")
    add("--output", type=given_path, required=True, help="checkpoint to write")
    add("--bert-output", type=given_path, help="directory for the converted BERT; the default is OUTPUT-bert")
    add("--bert-lower-case", choices=("yes", "no"), help="whether the converted BERT lower-cases; default: as bert-nmt")
    return parser.parse_args(argv)
