"""Converts a checkpoint of bert-nmt, the authors' implementation (a fork of fairseq 0.6), into one of this package.

bert-fused-import checkpoint_best.pt --bert ./bert-base-uncased --output imported.pt

--bert is the Hugging Face directory of the BERT that the model was trained with.  Nothing that a file holds is
executed.  To compare translations, let bert-nmt translate one sentence at a time: it pads BERT's input on the left, so
its results depend on the other sentences of a batch.

``bert-fused-import hf MODEL OUT`` converts a pre-trained translation model of transformers; ``bert-fused-import hf
--help`` describes it.
"""

import logging
import os
import shlex
import sys
from argparse import Namespace
from typing import Any, Callable, List, Optional, Sequence

import bert_fused_plugin  # noqa: F401  registers the architectures
from bert_fused_lab.arguments import given_path, output_errors, parser_of
from bert_fused_lab.importing import import_hf
from bert_fused_lab.importing.checkpoint import (
    Imported,
    bert_errors,
    import_bert_nmt,
    read_bert_nmt,
    recorded_and_checked,
    write_imported,
)
from bert_fused_lab.output import written_output
from bert_fused_plugin.bert.pretrained_bert import load_encoder
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Convert the checkpoint; if there are errors, report all of them together and write nothing."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    args = parse_args(arguments)
    if "model" in args:
        import_hf.run(args)
        return
    place = os.path.abspath(args.bert)  # which is no name on the hub
    errors = output_errors(output=args.output)
    if args.output.resolve() == args.checkpoint.resolve():
        errors.append(f"--output {args.output} must be another file than the checkpoint, which is not replaced")
    checkpoint = _collect(errors, read_bert_nmt, args.checkpoint)
    bert = None
    if os.path.isdir(place):
        bert = _collect(errors, load_encoder, place)
    else:
        errors.append(f"--bert {args.bert} must be a directory; download the BERT of the training, and give its folder")
    imported: Optional[Imported] = None
    if checkpoint is not None:
        imported = _collect(errors, import_bert_nmt, checkpoint["args"], checkpoint["model"], place)
    if imported is not None and imported.args.arch == "bert_fused" and bert is not None:
        errors += bert_errors(args.checkpoint, checkpoint, args.bert, bert)
    raise_all(errors)
    assert imported is not None  # there would be an error
    imported = recorded_and_checked(args.checkpoint, imported)
    with written_output(args.output) as new:
        write_imported(imported, new)
    _report(args, imported)


def _collect(errors: List[str], function: Callable[..., Any], *values: Any) -> Any:
    """Return *function* of *values*; if it fails, add its errors and return None."""
    try:
        return function(*values)
    except BertFusedError as error:
        errors += [message.replace("--bert-model", "--bert") for message in error.errors]
        return None


def _report(args: Namespace, imported: Imported) -> None:
    ours = {name: value for name, value in vars(imported.args).items() if name.startswith("bert_")}
    flags = [f"{flag_name(name)} {value}" for name, value in ours.items() if value is not None and value is not False]
    print(f"wrote {args.output}: --arch {imported.args.arch}", *flags)
    use = f"use: fairseq-generate DATA --path {shlex.quote(str(args.output))}"
    if imported.args.arch == "transformer":
        print("note: no layer attends to BERT: this is fairseq's own transformer, which needs no BERT and no plug-in")
        print(use)
        return
    print(f"{use} --user-dir bert_fused_plugin --task bert_fused_translation --bert-text DIR")
    print("DATA is the data-bin of bert-nmt, and DIR/{split}.{lang} its {split}.bert.{lang}.")
    print("Without --bert-text the text is derived from DATA.")


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["hf"]:
        return import_hf.parse_args(words[1:])
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("checkpoint", type=given_path, help="checkpoint of bert-nmt")
    add("--bert", type=given_path, required=True, help="Hugging Face directory of the BERT of the training")
    add("--output", type=given_path, required=True, help="checkpoint to write")
    return parser.parse_args(words)
