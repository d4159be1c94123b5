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
import sys
from argparse import Namespace
from typing import Any, Dict, Optional, Sequence

from transformers.utils import logging as hf_logging

from bert_fused_lab.arguments import given_path, parser_of, user_module
from bert_fused_lab.exporting import export_hf
from bert_fused_lab.exporting.model_directory import export_model
from bert_fused_plugin.errors import BertFusedError


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Write the directory, and print what is in it."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    hf_logging.disable_progress_bar()
    args = parse_args(arguments)
    if "imported" in args:
        export_hf.run(args)
        return
    given = {"subword_nmt": args.codes, "sentencepiece": args.sentencepiece_model}
    files = {tool: file for tool, file in given.items() if file is not None}
    if args.tokenizer != "moses" and (args.moses_no_dash_splits or args.moses_no_escape):
        raise BertFusedError("--moses-no-dash-splits and --moses-no-escape need --tokenizer moses; add it")
    tokenizer: Optional[Dict[str, Any]] = None
    if args.tokenizer is not None:
        tokenizer = {"_name": args.tokenizer}
        if args.tokenizer == "moses":
            tokenizer.update(moses_no_dash_splits=args.moses_no_dash_splits, moses_no_escape=args.moses_no_escape)
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
