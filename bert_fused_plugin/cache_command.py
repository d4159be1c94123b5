"""Prepares word pieces and BERT's states for trainings, and shows the directory of --bert-cache.

    bert-fused-cache build DATA --bert-model BERT [--bert-cache DIR] [--part K/N] [flags of the training]
    bert-fused-cache info DIR

build makes the word pieces of all large data sets of a training, and with --bert-cache BERT's states of all sentences,
which a training in several processes needs before it begins.  build takes the command line of the training.  The flags
about the data, BERT and its input count, such as --bert-layer and --bert-text, which fairseq does not list.  Most other
flags do nothing.  With --part K/N it computes one of N shares of the states, so that N jobs build the cache together.

info shows of which BERTs and data sets the directory has states.  What is not wanted any more is removed by rm -r.
"""

import json
import logging
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from contextlib import suppress
from pathlib import Path
from typing import Optional, Sequence, Tuple

from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.utils import split_paths
from safetensors import SafetensorError, safe_open

from bert_fused_plugin.data.cached_states import SUFFIX, in_bytes
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.tasks.bert_cache import DESCRIPTION

logger = logging.getLogger(__name__)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Do what the command line says."""
    args = parse_args(arguments)
    args.run(args)


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line; for ``build``, those of a training, and the share."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["build"]:
        training = options.get_training_parser(default_task="bert_fused_translation")
        training.prog, training.description = "bert-fused-cache build", __doc__
        training.formatter_class = RawDescriptionHelpFormatter
        # argparse would list all flags of fairseq, a screen full, before each error
        training.usage = "%(prog)s DATA --bert-model BERT [--bert-cache DIR] [--part K/N] [flags of the training]"
        training.add_argument("--part", type=_share, default=(1, 1), metavar="K/N", help="compute share K of N")
        training.set_defaults(arch="bert_fused", run=build)
        return options.parse_args_and_arch(training, input_args=words[1:])
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build", "info"))
    parser.add_argument("directory", type=Path, metavar="DIR", help="directory of --bert-cache, for info")
    parser.set_defaults(run=info)
    return parser.parse_args(words)


def build(args: Namespace) -> None:
    """Make what is missing of the word pieces and states of all data sets of the training whose settings are *args*.

    Raises:
        BertFusedError: the settings are not those of a training with BERT.
    """
    if vars(args).get("bert_model") is None:
        raise BertFusedError("bert-fused-cache build needs --bert-model, got none; give the flags of the training")
    part = args.part
    del args.part, args.run  # which fairseq's configuration does not have
    if "bert_warm_start" in args:
        args.bert_warm_start = None  # the states depend on BERT alone, and the checkpoint may not be there yet
    cfg = convert_namespace_to_omegaconf(args)
    cfg.model.save_dir = None  # no training, whose settings would be checked
    task = tasks.setup_task(cfg.task)
    task.build_model(cfg.model)
    if task.bert_cache is not None:
        task.bert_cache.part = part
    combine = bool(cfg.dataset.combine_valid_subsets)
    loads = [(split, 1, combine) for split in (["valid"] if combine else cfg.dataset.valid_subset.split(","))]
    loads += [(cfg.dataset.train_subset, epoch + 1, True) for epoch in range(len(split_paths(cfg.task.data)))]
    for split, *how in loads:  # as fairseq-train does
        task.load_dataset(split, *how)  # which makes what is missing
        del task.datasets[split]
    states = "no --bert-cache, so no states" if task.bert_cache is None else f"states in {cfg.task.bert_cache}"
    share = "" if part == (1, 1) else f" (share {part[0]} of {part[1]})"
    logger.info(f"the data of this training is prepared: word pieces of large data sets, {states}{share}")


def _share(text: str) -> Tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ArgumentTypeError(f"must be K/N, the number of this job and of all jobs, such as 1/8, got {text!r}")
    return int(part), int(parts)


def info(args: Namespace) -> None:
    """Print what the directory holds: each BERT, and each of its data sets.

    Raises:
        BertFusedError: it holds nothing.
    """
    descriptions = sorted(args.directory.glob(f"*/{DESCRIPTION}"))
    if not descriptions:
        raise BertFusedError(f"{args.directory} has no states of any BERT; give the directory of --bert-cache")
    for file in descriptions:
        bert = json.loads(file.read_text(encoding="utf-8"))
        print(file.parent, f"BERT: {bert['--bert-model']}, layers {bert['layers']}", sep="\n  ")
        for split in sorted(path for path in file.parent.iterdir() if path.is_dir()):
            print(f"  {split.name}: {_content_of(split)}")


def _content_of(split: Path) -> str:
    blocks, expected = sorted(split.glob(f"*{SUFFIX}")), None  # the first block says how many there will be
    with suppress(OSError, SafetensorError, KeyError, IndexError), safe_open(blocks[0], "pt") as opened:
        expected = int(opened.metadata()["blocks"])
    state = "complete" if len(blocks) == expected else "not complete"
    size = in_bytes(sum(block.stat().st_size for block in blocks))
    return f"{state}, {len(blocks):,} of {expected or '?'} blocks, {size}"
