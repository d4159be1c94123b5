"""Checkpoints of random models of any architecture, and files that are away for a while."""

import os
from argparse import Namespace
from contextlib import contextmanager
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from helpers import GRU_SIZES, SIZES, randomise


@contextmanager
def gone(*paths):
    """Move *paths* away for a while."""
    for path in paths:
        os.rename(path, f"{path}.gone")
    try:
        yield
    finally:
        for path in paths:
            os.rename(f"{path}.gone", path)


def save_model(workspace, path, arch, **flags):
    """Write the checkpoint of a random model, as old versions of fairseq did."""
    dictionary = Dictionary.load(f"{workspace.data}/dict.en.txt")
    sizes = GRU_SIZES if arch.startswith("gru") else SIZES
    given = {"data": workspace.data, "source_lang": "en", "target_lang": "de", "task": "bert_fused_translation"}
    args = Namespace(**{**sizes, **given, "arch": arch, "criterion": "cross_entropy", "optimizer": "adam", **flags})
    ARCH_CONFIG_REGISTRY[arch](args)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary, cfg=args)
    model = ARCH_MODEL_REGISTRY[arch].build_model(args, task)
    randomise(model)
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 3}
    state = {"args": args, "model": model.state_dict(), "optimizer_history": [history], "last_optimizer_state": None}
    torch.save({**state, "extra_state": {"train_iterator": {"epoch": 1}}}, path)
    return path
