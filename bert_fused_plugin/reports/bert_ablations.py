"""Does a model use what BERT says?  BERT's branch off, its input shuffled among sentences, BERT with random weights."""

import copy
from contextlib import contextmanager, nullcontext
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Tuple

import torch
from fairseq.data import BaseWrapperDataset
from torch import Tensor, nn

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.data.bert_pair_dataset import BertPairDataset
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.modules.bert_fused_decoder_layer import BertFusedDecoderLayer
from bert_fused_plugin.modules.bert_fused_encoder_layer import BertFusedEncoderLayer
from bert_fused_plugin.modules.fusion import Fusion
from bert_fused_plugin.reports.runs import Run

MEANING = {
    "on": "as trained",
    "off": "the NMT branch alone, with weight 1, as under drop-net; stacked layers: no attention to BERT",
    "shuffled": "BERT reads another sentence of the test set",
    "random": "BERT of the same size with random weights",
}


def bert_tests(run: Run, subset: str, seed: int) -> Dict[str, Callable[[], ContextManager[None]]]:
    """Return, by its name in `MEANING`, what brings *run* into each state that applies to it."""
    tests: Dict[str, Callable[[], ContextManager[None]]] = {"on": nullcontext}
    if isinstance(run.model, GruModel) or not run.model.encoder.replaces_embeddings:
        tests["off"] = lambda: bert_off(run.model)
    if len(run.task.dataset(subset)) > 1:
        tests["shuffled"] = lambda: shuffled_bert(run.task, subset, seed)
    tests["random"] = lambda: random_bert(run.model, seed)
    return tests


@contextmanager
def bert_off(model: nn.Module) -> Iterator[None]:
    """Let every layer use its NMT branch alone; stacked layers leave their attention to BERT out."""
    changed: List[Tuple[Any, str, Any]] = []

    def change(owner: Any, name: str, value: Any) -> None:
        changed.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    for module in list(model.modules()):
        if isinstance(module, Fusion):
            change(module, "mix", _OtherBranch())
        elif isinstance(module, (BertFusedEncoderLayer, BertFusedDecoderLayer)) and module.fusion is None:
            change(module, "bert_attn", None)
    if isinstance(model, GruModel):
        change(model.decoder, "branch_weights", (1.0, 0.0))
    try:
        yield
    finally:
        for owner, name, value in changed:
            setattr(owner, name, value)


@contextmanager
def shuffled_bert(task: Any, subset: str, seed: int) -> Iterator[None]:
    """Give each sentence of *subset* BERT's input of another one."""
    dataset = task.datasets[subset]
    task.datasets[subset] = ShuffledBert(dataset, derangement(len(dataset), seed))
    try:
        yield
    finally:
        task.datasets[subset] = dataset


@contextmanager
def random_bert(model: Any, seed: int) -> Iterator[None]:
    """Replace BERT by one of the same configuration with random weights."""
    encoder, bert = model.encoder, model.encoder.bert
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fresh = type(bert.model)(copy.deepcopy(bert.model.config))
    if hasattr(fresh, "pooler"):
        fresh.pooler = None
    encoder.bert = FrozenBert(fresh, str(model.cfg.bert_layer)).to(next(model.parameters()).device)
    try:
        yield
    finally:
        encoder.bert = bert


class ShuffledBert(BaseWrapperDataset):
    """A dataset whose sentence i has the ``bert_tokens`` of sentence *order[i]*."""

    def __init__(self, dataset: BertPairDataset, order: Tensor) -> None:
        super().__init__(dataset)
        self.order = order

    def __getitem__(self, index: int) -> Dict[str, Any]:
        """Return the sample of *index* with BERT's input of another sentence."""
        return {**self.dataset[index], "bert_tokens": self.dataset.bert_tokens(int(self.order[index]))}


def derangement(size: int, seed: int) -> Tensor:
    """Return a random order of *size* (2 or more) that leaves nothing in its place: one cycle through all."""
    cycle = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    order = torch.empty_like(cycle)
    order[cycle] = cycle.roll(-1)
    return order


class _OtherBranch(nn.Module):
    def forward(self, other: Tensor, bert: Tensor) -> Tensor:
        return other
