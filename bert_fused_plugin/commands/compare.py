"""Compares runs on a test set: does BERT help, and how would one see it?  Also one run alone: does it use BERT?

bert-fused-compare DATA_BIN --baseline plain=checkpoints/plain --run fused=checkpoints/fused --output report.html
"""

import argparse
import logging
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.comparison import Comparison
from bert_fused_plugin.reports.decoding import POST_PROCESS, Decoding, Texts, hardware
from bert_fused_plugin.reports.page import check_writable, render, to_json, write_together
from bert_fused_plugin.reports.runs import Place, Run, check_comparable, find_runs, load_run


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command.

    Raises:
        BertFusedError: what the user gave cannot be used; nothing is written then.
    """
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    options = parse_args(arguments)
    if options.examples < 0 or options.samples < 1 or options.beam < 1 or options.max_tokens < 1:
        raise BertFusedError("--beam, --max-tokens and --samples must be at least 1, --examples at least 0")
    outputs = [Path(path) for path in (options.output, options.json) if path is not None]
    check_writable(outputs)
    report = compare(options)
    texts = {Path(options.output): render(report)}
    if options.json is not None:
        texts[Path(options.json)] = to_json(report)
    write_together(texts)
    for line in (*report["verdicts"], *filter(None, (test["verdict"] for test in report["bert_tests"]))):
        print(line)
    for path in outputs:
        print(f"written: {path}")


def compare(options: argparse.Namespace) -> Dict[str, Any]:
    """Return all that the report shows."""
    device = "cuda" if torch.cuda.is_available() and not options.cpu else "cpu"
    place = Place(options.data, options.subset, options.bert_text, options.bert_documents, device)
    runs = [load_run(files, place) for files in find_runs(options.baseline, options.run, options.log)]
    check_comparable(runs)
    how = Decoding(options.beam, options.lenpen, options.max_len_a, options.max_len_b, options.max_tokens)
    texts = Texts(runs[0].task, options.remove_bpe, options.detok)
    references = read_references(options, runs[0], texts)
    tokenised = options.reference is None and options.detok == "none"
    comparison = Comparison(runs, options.subset, how, texts, references, tokenised, options.samples, options.seed)
    report = {
        "command": shlex.join(["bert-fused-compare", *(sys.argv[1:])]),
        "data": options.data,
        "subset": options.subset,
        "languages": [runs[0].task.cfg.source_lang, runs[0].task.cfg.target_lang],
        "sentences": len(references),
        "references": options.reference or f"{options.data}, tokenised" * tokenised or f"{options.data}, detokenised",
        "decoding": asdict(how),
        "hardware": hardware(device),
        **comparison.report(options.data, options.examples, with_ablations=not options.no_bert_tests),
    }
    report["remarks"] += _remarks(options, texts, tokenised)
    return report


def read_references(options: argparse.Namespace, run: Run, texts: Texts) -> List[str]:
    """Return the reference of each sentence: of ``--reference``, or of the data.

    Raises:
        BertFusedError: there is none, or not one for each sentence.
    """
    dataset = run.task.dataset(options.subset)
    if len(dataset) == 0:
        raise BertFusedError(f"{options.data}: {options.subset!r} has no sentences; give another --subset")
    if options.reference is None:
        if dataset.tgt is None:
            language = run.task.cfg.target_lang
            raise BertFusedError(
                f"{options.data} has no {language} side of {options.subset!r}; give the references: --reference FILE"
            )
        return [texts.reference(dataset.tgt[i]) for i in range(len(dataset))]
    try:
        with open(options.reference, encoding="utf-8", newline="\n") as lines:
            references = [line.rstrip("\r\n") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        raise BertFusedError(f"--reference {options.reference} cannot be read as UTF-8 text ({error})") from error
    if len(references) != len(dataset):
        raise BertFusedError(
            f"--reference {options.reference} has {len(references)} lines, {options.subset!r} of {options.data} has "
            f"{len(dataset)} sentences; it must hold the reference of exactly these, line by line"
        )
    return references


def _remarks(options: argparse.Namespace, texts: Texts, tokenised: bool) -> List[str]:
    if tokenised:
        return [
            "The scores are of tokenised text, as it is in the data: good for comparing these runs, not with "
            "published figures. Give --reference FILE, detokenised, for those."
        ]
    if options.reference is not None and options.detok == "none" and texts.target_subwords != "sentencepiece":
        return [
            "The references are those of --reference, and the translations are as tokenised as the data. If that was "
            "tokenised by Moses, give --detok moses."
        ]
    return []


def parse_args(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Return the settings of the command line."""
    description, _, example = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=example, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    how = Decoding()
    add("data", metavar="DATA_BIN", help="directory of fairseq-preprocess, with the dictionaries of all runs")
    add(
        "--baseline",
        required=True,
        metavar="NAME=PATH",
        help="--save-dir, or checkpoint, to compare with; or the only run",
    )
    add("--run", action="append", default=[], metavar="NAME=PATH", help="the same of another run; repeatable")
    add("--output", required=True, help="HTML file to write, one page without links to others")
    add("--json", help="JSON file to write, with all figures")
    add("--log", action="append", default=[], metavar="NAME=FILE", help="what fairseq-train printed; default: "
        "CHECKPOINT.log, else *.log in the save-dir, or SAVE_DIR.log")  # fmt: skip
    add("--subset", default="test", help="default: %(default)s")
    add("--reference", help="detokenised references, one a line; default: the data's own, tokenised")
    add("--remove-bpe", nargs="?", default="auto", const="auto", choices=["auto", *POST_PROCESS],
        help="subword marks to undo; default: those of the dictionaries")  # fmt: skip
    add("--detok", default="none", choices=["none", "moses"], help="detokenise translations; default: %(default)s")
    add("--beam", type=int, default=how.beam, help="default: %(default)s")
    add("--lenpen", type=float, default=how.lenpen, help="default: %(default)s")
    add("--max-len-a", type=float, default=how.max_len_a, help="default: %(default)s")
    add("--max-len-b", type=int, default=how.max_len_b, help="default: %(default)s")
    add("--max-tokens", type=int, default=how.max_tokens, help="of a batch; default: %(default)s")
    add("--bert-text", metavar="DIR", help="raw source text for BERT, as of the task")
    add("--bert-documents", metavar="DIR", help="document boundaries for --bert-context, as of the task")
    add("--no-bert-tests", action="store_true", help="do not translate with BERT off, shuffled and random")
    add("--examples", type=int, default=10, help="best and worst sentences shown of each run; default: %(default)s")
    add("--samples", type=int, default=1000, help="of the bootstrap; default: %(default)s")
    add("--seed", type=int, default=1, help="of the shuffling and the random BERT; default: %(default)s")
    add("--cpu", action="store_true", help="use no GPU")
    return parser.parse_args(arguments)
