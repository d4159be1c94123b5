"""Does a model use what BERT says?  It translates without BERT, with other sentences for BERT, with a random BERT.

A model and a task are brought into such a state by hooks, which PyTorch has for this, or by another part in the place
of their own (a data set, a BERT); both are taken back at the end.
"""

import copy
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Callable, ContextManager, Dict, Iterator

import torch
from torch import nn

from bert_fused_lab.evidence.runs import Run
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.source import BertSource, source_of
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.modules.drop_net import DropNet


def bert_ablations(run: Run, subset: str) -> Dict[str, Callable[[], ContextManager[None]]]:
    """Return, for each of `STATES` that applies to *run*, what brings it into that state."""
    states: Dict[str, Callable[[], ContextManager[None]]] = {"on": nullcontext}
    if source_of(run.model) is None:
        return states
    if isinstance(run.model, GruModel) or not run.model.encoder.replaces_embeddings:
        states["off"] = lambda: bert_off(run.model)
    if len(run.task.dataset(subset)) > 1:
        states["shuffled"] = lambda: shuffled_bert(run.task, subset)
    states["random"] = lambda: random_bert(run.model)
    return states


@contextmanager
def bert_off(model: nn.Module) -> Iterator[None]:
    """Let every layer use its NMT branch alone; stacked layers leave their attention to BERT out."""
    with ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, DropNet):  # each layer has one
                hooks.enter_context(module.register_forward_hook(lambda *_: (True, False)))
        yield


@contextmanager
def shuffled_bert(task: Any, subset: str, seed: int = 1) -> Iterator[None]:
    """Give each sentence of *subset* BERT's input of another one."""
    dataset = task.datasets[subset]
    cycle = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    other = dict(zip(cycle, cycle[1:] + cycle[:1]))  # one cycle through all sentences leaves none in its place
    shuffled = copy.copy(dataset)
    shuffled.bert_tokens = lambda index: dataset.bert_tokens(other[int(index)])
    task.datasets[subset] = shuffled
    try:
        yield
    finally:
        task.datasets[subset] = dataset


@contextmanager
def random_bert(model: Any, seed: int = 1) -> Iterator[None]:
    """Replace BERT by one of the same configuration with random weights."""
    from transformers import AutoModel

    source: BertSource = model.encoder.source
    bert = source.bert
    with torch.random.fork_rng(devices=[]):  # it is made on the CPU; torch warns of generators of several GPUs
        torch.default_generator.manual_seed(seed)
        fresh = AutoModel.from_config(copy.deepcopy(bert.model.config))
    if type(fresh) is not type(bert.model):
        fresh = fresh.get_encoder()
    trained = next(model.parameters())
    source.bert = FrozenBert(fresh, str(model.cfg.bert_layer)).to(trained.device, trained.dtype)
    source.bert.reads_lengths_apart = bert.reads_lengths_apart
    try:
        yield
    finally:
        source.bert = bert
