"""Writes what models translate and attend to into files, each once, for bert-fused-report and any other program.

bert-fused-evidence DATA_BIN --run plain=checkpoints/plain --run fused=checkpoints/fused --evidence evidence

A later call, with another seed or system, writes only what is new.
"""

import logging
import math
import os
import re
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.utils import split_paths

from bert_fused_lab.arguments import NamedPaths, given_path, named_paths, number_errors, parser_of, user_module
from bert_fused_lab.evidence.collection import Collection
from bert_fused_lab.evidence.runs import find_runs
from bert_fused_lab.evidence.translating import Decoding
from bert_fused_plugin.data.dictionary_bridge import DETOKENIZERS
from bert_fused_plugin.data.subwords import JOINABLE
from bert_fused_plugin.errors import raise_all

_LEAST = {"beam": 1, "lenpen": -math.inf, "max_len_a": 0, "max_len_b": 1, "max_tokens": 1, "prefix_size": 0}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command.

    Raises:
        BertFusedError: a flag or a file cannot be used.
    """
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    options = parse_args(arguments)
    raise_all(errors(options))
    evidence = collection(options, [("--run", run) for run in options.run])
    evidence.prepare()
    evidence.translate()
    print(f"written: {options.evidence}")


def collection(
    options: Namespace, runs: Sequence[Tuple[str, NamedPaths]], hypotheses: Sequence[NamedPaths] = ()
) -> Collection:
    """Return the evidence of *runs*, each with its flag; *hypotheses* are other systems, whose names must differ."""
    device = "cuda" if torch.cuda.is_available() and not options.cpu else "cpu"
    options.subset = [*dict.fromkeys(options.subset or test_sets(options.data))]
    return Collection(options, find_runs(runs, hypotheses), device)


def errors(options: Namespace) -> List[str]:
    """Return a sentence for each problem with the numbers of the search, or with the folder of the evidence, if any."""
    problems, folder = number_errors(options, **_LEAST), options.evidence and options.evidence.absolute()
    place = folder and next(path for path in (folder, *folder.parents) if path.exists())
    if place and not (place.is_dir() and os.access(place, os.W_OK)):
        problems.append(f"--evidence {options.evidence} must be a directory that can be written; give another one")
    return problems


def test_sets(data: str) -> List[str]:
    """Return the names of the test sets in *data*, which begin with ``test``."""
    files = Path(split_paths(data)[0]).glob("test*.*-*.*")
    names = {re.sub(r"\.[^.-]+-[^.]+\.[^.]+(\.bin|\.idx)?$", "", file.name) for file in files}
    names = {name for name in names if not name.endswith(".bert")}  # what bert-nmt's BERT reads
    return sorted(names, key=lambda name: (len(name), name)) or ["test"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add what the evidence depends on, beside the runs."""
    add, how = parser.add_argument, asdict(Decoding())
    add("data", metavar="DATA_BIN", help="directory of fairseq-preprocess; all runs must have its dictionaries")
    add("--subset", action="append", metavar="NAME", help="name of a test set; may be repeated, with {subset} in the "
        "names of files that each set has; default: all whose name begins with test")  # fmt: skip
    add("--reference", type=given_path, help="file of detokenised references; default: those of the data")
    add("--remove-bpe", nargs="?", default="auto", const="auto", choices=["auto", *JOINABLE],
        help="subword marks to undo; default: those that the dictionaries have")  # fmt: skip
    add("--detok", default="none", choices=DETOKENIZERS, help="detokenisation; default: %(default)s")
    add("--beam", type=int, help="beam size; default: %(default)s")
    add("--lenpen", type=float, help="exponent of the length penalty; default: %(default)s")
    add("--max-len-a", type=float, help="a of ax + b, the length limit for x source tokens")
    add("--max-len-b", type=int, help="b of this limit; defaults: 0 and %(default)s")
    add("--max-tokens", type=int, help="most tokens in a batch; default: %(default)s")
    add("--prefix-size", type=int, help="begin translations with so many tokens of the references, such as the tag of "
        "the language; default: %(default)s")  # fmt: skip
    add("--bert-text", metavar="DIR", help="directory with the raw source text for BERT, as for the task")
    add("--bert-documents", metavar="DIR", help="directory with document boundaries, as for the task")
    add("--no-bert-tests", action="store_true", help="leave out the translations with BERT off, shuffled and random")
    add("--user-dir", type=user_module, metavar="DIR", help="plug-in that has the architecture of a model")
    add("--cpu", action="store_true", help="use no GPU")
    add("--bf16", action="store_true", help="translate in bfloat16")
    parser.set_defaults(**how)


def parse_args(arguments: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    parser = parser_of(__doc__)
    named: Dict[str, Any] = {"type": named_paths, "metavar": "NAME=PATH[,PATH]", "action": "append", "required": True}
    parser.add_argument("--run", **named, help="name, and --save-dir or checkpoint of each seed, of a run; may be "
        "repeated")  # fmt: skip
    parser.add_argument("--evidence", type=given_path, required=True, metavar="DIR", help="directory of the files")
    add_arguments(parser)
    return parser.parse_args(arguments)
