"""Compares runs on a test set, to show whether BERT helps.  Of a single run it shows whether the run uses BERT.

bert-fused-compare DATA_BIN --baseline plain=checkpoints/plain --run fused=checkpoints/fused --output report.html

It is bert-fused-evidence and then bert-fused-report.
"""

import logging
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Dict, Optional, Sequence

from bert_fused_lab.arguments import given_path, named_paths, parser_of
from bert_fused_lab.evidence import command as evidence
from bert_fused_lab.report import command as report
from bert_fused_lab.report.systems import read_test_set
from bert_fused_plugin.errors import raise_all


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command.

    Raises:
        BertFusedError: a flag, a checkpoint or the data cannot be used; nothing is written then.
        EvidenceError: a file of another system, or of another metric, cannot be used.
    """
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    options = parse_args(arguments)
    raise_all(evidence.errors(options) + report.errors(options))
    report.write(options, compare(options))


def compare(options: Namespace) -> Dict[str, Any]:
    """Return all that the report shows, for the settings *options* of the command line."""
    with ExitStack() as stack:
        if options.evidence is None:
            options.evidence = Path(stack.enter_context(TemporaryDirectory()))
        runs = [("--baseline", options.baseline), *(("--run", run) for run in options.run)]
        collection = evidence.collection(options, runs, options.hypotheses)
        collection.prepare()
        seeds = {first.name: 1 + len(more) for first, *more in collection.seeds}
        for name in options.subset:  # before the hours of the translations
            test_set = read_test_set(options.evidence / name)
            others = {name: len(texts) for name, texts in report.given_texts(options, test_set).items()}
            report.given_scores(options, test_set, {**seeds, **others})
        collection.translate()
        comparisons = report.comparisons(options, seeds)
        content = report.report(options, comparisons)
        shown = [*content["sentence_texts"]]  # which only the scores tell
        collection.add_maps(options.subset[0], shown)
        return {**content, "attention": comparisons[0].attention(shown)}


def parse_args(arguments: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    parser = parser_of(__doc__)
    named: Dict[str, Any] = {"type": named_paths, "metavar": "NAME=PATH[,PATH]"}
    run = "name, and --save-dir or checkpoint of each seed, of"
    add = parser.add_argument
    add("--baseline", required=True, **named, help=f"{run} the run to compare with, or of the only run")
    add("--run", action="append", default=[], **named, help=f"{run} another run; may be repeated")
    add("--evidence", type=given_path, metavar="DIR", help="directory that keeps translations and all else that the "
        "report is made from, so that a later one translates only what is new")  # fmt: skip
    evidence.add_arguments(parser)
    report.add_arguments(parser)
    return parser.parse_args(arguments)
