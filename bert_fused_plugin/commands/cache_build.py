"""bert-fused-cache build: BERT's states of all sentences of a training, computed before it."""

import argparse
import logging
from argparse import Namespace
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.utils import split_paths

from bert_fused_plugin.errors import BertFusedError, raise_all

USAGE = (
    "bert-fused-cache build DATA --arch ARCH --bert-model BERT --bert-cache DIR [--part K/N] [flags of the training]"
)
DESCRIPTION = """Compute BERT's states of all sentences of a training, before the training and as a job of its own.
Give the command line of the training.  The flags about the data, BERT and its input count, such as --bert-layer and
--bert-text, which fairseq does not list here.  Most other flags do nothing."""
TASK, ARCHITECTURE = "bert_fused_translation", "bert_fused"

logger = logging.getLogger(__name__)


def parse_build(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line, which is that of a training; most flags of a training do nothing here.

    The architecture and the task need not be given.
    """
    parser = options.get_training_parser(default_task=TASK)
    parser.prog, parser.description = "bert-fused-cache build", DESCRIPTION
    parser.usage = USAGE  # argparse would list all flags of fairseq, a screen full, before each error
    parser.add_argument_group("share of the cache").add_argument(
        "--part", type=_share, default=(1, 1), metavar="K/N",
        help="compute the share K, from 1 to N, of the states; the N jobs of all shares build the whole cache together",
    )  # fmt: skip
    parser.set_defaults(arch=ARCHITECTURE)
    args: Namespace = options.parse_args_and_arch(parser, input_args=None if argv is None else list(argv))
    args.command = "build"
    return args


def build(args: Namespace) -> None:
    """Compute what the cache lacks of all data sets of the training whose settings are *args*.

    Raises:
        BertFusedError: the settings are not those of a training with a cache, or a data set is missing.
    """
    raise_all(_errors(args))
    job = args.part
    del args.part, args.command  # which fairseq's configuration does not have
    if "bert_warm_start" in args:
        args.bert_warm_start = None  # the states depend on BERT alone, and the checkpoint may not be there yet
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    task.build_model(cfg.model)
    task.cached_states.job = job
    for split, options_of_split in _splits(cfg):
        _load(task, split, options_of_split)
        del task.datasets[split]
    if job == (1, 1):
        logger.info(f"the BERT cache {cfg.task.bert_cache} is complete for this training")
    else:
        logger.info(f"share {job[0]} of {job[1]} of the BERT cache {cfg.task.bert_cache} is complete for this training")


def _load(task: Any, split: str, options_of_split: Dict[str, Any]) -> None:
    """Load the data set *split*, which computes what its cache lacks."""
    try:
        task.load_dataset(split, **options_of_split)
    except FileNotFoundError as error:
        if not str(error).startswith("Dataset not found: "):  # as fairseq says it
            raise
        raise BertFusedError(
            f"--train-subset and --valid-subset must name data sets of {task.cfg.data}, and it has no {split!r}; give "
            "the names of files that are there"
        ) from error


def _splits(cfg: Any) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Yield the data sets that fairseq-train loads, each with the options with which it loads them."""
    if cfg.dataset.combine_valid_subsets:
        yield "valid", {"combine": True, "epoch": 1}
    else:
        for split in cfg.dataset.valid_subset.split(","):
            yield split, {"combine": False, "epoch": 1}
    for epoch in range(1, 1 + len(split_paths(cfg.task.data))):
        yield cfg.dataset.train_subset, {"combine": True, "epoch": epoch}


def _errors(args: Namespace) -> List[str]:
    """Return a sentence for each flag without which there is no cache."""
    given = vars(args)
    names = {"bert_model": "--bert-model NAME_OR_DIR", "bert_cache": "--bert-cache DIR"}
    return [
        f"bert-fused-cache build needs {flag}, got none; give the flags of the training that shall use the cache"
        for name, flag in names.items()
        if name not in given or given[name] is None
    ]


def _share(text: str) -> Tuple[int, int]:
    job, _, jobs = text.partition("/")
    if not (job.isdecimal() and jobs.isdecimal() and 1 <= int(job) <= int(jobs)):
        raise argparse.ArgumentTypeError(
            f"must be K/N with K from 1 to N, such as 1/8, got {text!r}; give the number of this job and of all jobs"
        )
    return int(job), int(jobs)
