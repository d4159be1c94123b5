"""What the tests of fairseq_compat.checkpoint share: the state of a checkpoint, and ways to save and to load it."""

import copy
import functools
import io
from collections import OrderedDict

import numpy as np
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import meters, metrics
from omegaconf import OmegaConf

from fairseq_compat import checkpoint

TRUST = "FAIRSEQ_COMPAT_TRUST_CHECKPOINTS"


def stock_state():
    return copy.deepcopy(make_stock_state())


@functools.lru_cache
def make_stock_state():
    """The state of a fairseq checkpoint, from fairseq's own parser, config and metrics."""
    parser = options.get_training_parser("translation")
    args = options.parse_args_and_arch(parser, ["data-bin", "--arch", "transformer_tiny", "--lr", "0.1"])
    cfg = convert_namespace_to_omegaconf(args)
    with metrics.aggregate() as aggregator:
        metrics.log_scalar("loss", np.float32(2.5), 3, round=3)
        metrics.log_scalar("_bleu_counts", np.array([4, 3, 2, 1]))
    meter = meters.AverageMeter()
    meter.update(np.float64(7))
    return {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": OrderedDict(weight=torch.arange(6.0).reshape(2, 3)),
        "optimizer_history": [{"num_updates": 3, "lr_scheduler_state": {"best": np.float64(0.5)}}],
        "last_optimizer_state": {"state": {0: {"step": 3, "exp_avg": torch.ones(2)}}},
        "task_state": {},
        "extra_state": {
            "metrics": {"default": aggregator.state_dict()},
            "train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True},
            "val_loss": np.float64(1.25),
            "meter": meter.state_dict(),
        },
    }


def save(state, path, **how):
    with open(path, "wb") as file:
        torch.save(state, file, **how)
    return str(path)


def round_trip(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return checkpoint.load(io.BytesIO(buffer.getvalue()))
