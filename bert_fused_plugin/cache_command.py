"""Builds and shows the directory of --bert-cache.

    bert-fused-cache build DATA --arch ARCH --bert-model BERT --bert-cache DIR [--part K/N] [flags of the training]
    bert-fused-cache info DIR

build computes BERT's states of all sentences of a training before the training, as a job of its own; it takes the
command line of the training.  The flags about the data, BERT and its input count, such as --bert-layer and --bert-text,
which fairseq does not list.  Most other flags do nothing.  With --part K/N it computes one of N shares, so that N jobs
build the cache together.

info shows of which BERTs and data sets the directory has states.  What is not wanted any more is removed by rm -r.
"""

import json
import logging
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.utils import split_paths
from safetensors import SafetensorError, safe_open

from bert_fused_plugin.data.cached_states import SUFFIX, in_bytes
from bert_fused_plugin.errors import BertFusedError, raise_all
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
        training.usage = "%(prog)s DATA --arch ARCH --bert-model BERT --bert-cache DIR [--part K/N] [flags of training]"
        training.add_argument("--part", type=_share, metavar="K/N", help="compute the share K of N of the states")
        training.set_defaults(arch="bert_fused", run=build)
        return options.parse_args_and_arch(training, input_args=words[1:])
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(metavar="{build,info}", required=True)
    commands.add_parser("build", help="compute BERT's states of all sentences of a training", add_help=False)
    info_parser = commands.add_parser("info", help="show of which BERTs and data sets the directory has states")
    info_parser.add_argument("directory", type=Path, metavar="DIR", help="directory of --bert-cache")
    info_parser.set_defaults(run=info)
    return parser.parse_args(words)


def build(args: Namespace) -> None:
    """Compute what the cache lacks of all data sets of the training whose settings are *args*.

    Raises:
        BertFusedError: the settings are not those of a training with a cache.
    """
    needed = {"bert_model": "--bert-model NAME_OR_DIR", "bert_cache": "--bert-cache DIR"}
    raise_all(
        [
            f"bert-fused-cache build needs {flag}, got none; give the flags of the training that shall use the cache"
            for name, flag in needed.items()
            if vars(args).get(name) is None
        ]
    )
    part = args.part
    del args.part, args.run  # which fairseq's configuration does not have
    if "bert_warm_start" in args:
        args.bert_warm_start = None  # the states depend on BERT alone, and the checkpoint may not be there yet
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    task.build_model(cfg.model)
    task.bert_cache.part = part
    for split, options_of_split in _splits(cfg):
        task.load_dataset(split, **options_of_split)  # which computes what the cache lacks
        del task.datasets[split]
    share = "" if part is None else f"share {part[0]} of {part[1]} of "
    logger.info(f"{share}the BERT cache {cfg.task.bert_cache} is complete for this training")


def _splits(cfg: Any) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Yield the data sets that fairseq-train loads, each with the options with which it loads them."""
    if cfg.dataset.combine_valid_subsets:
        yield "valid", {"combine": True, "epoch": 1}
    else:
        for split in cfg.dataset.valid_subset.split(","):
            yield split, {"combine": False, "epoch": 1}
    for epoch in range(1, 1 + len(split_paths(cfg.task.data))):
        yield cfg.dataset.train_subset, {"combine": True, "epoch": epoch}


def _share(text: str) -> Tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ArgumentTypeError(
            f"must be K/N with K from 1 to N, such as 1/8, got {text!r}; give the number of this job and of all jobs"
        )
    return int(part), int(parts)


def info(args: Namespace) -> None:
    """Print what the directory holds: each BERT, and each of its data sets.

    Raises:
        BertFusedError: it holds nothing.
    """
    found = sorted(args.directory.glob(f"*/{DESCRIPTION}"))
    if not found:
        raise BertFusedError(
            f"{args.directory} must be a directory that --bert-cache has filled, and it holds no states of any BERT; "
            "give the directory of --bert-cache"
        )
    for file in found:
        bert = json.loads(file.read_text(encoding="utf-8"))
        print(file.parent, f"BERT: {bert['--bert-model']}, layers {bert['layers']}", sep="\n  ")
        for split in sorted(path for path in file.parent.iterdir() if path.is_dir()):
            print(f"  {split.name}: {_content_of(split)}")


def _content_of(split: Path) -> str:
    """Return how much of its states the folder of a data set has; its first block says how many there will be."""
    blocks, expected = sorted(split.glob(f"*{SUFFIX}")), None
    with suppress(OSError, SafetensorError, KeyError, IndexError), safe_open(blocks[0], "pt") as opened:
        expected = int(opened.metadata()["blocks"])
    state = "complete" if len(blocks) == expected else "not complete"
    size = in_bytes(sum(block.stat().st_size for block in blocks))
    return f"{state}, {len(blocks):,} of {expected or '?'} blocks, {size}"
