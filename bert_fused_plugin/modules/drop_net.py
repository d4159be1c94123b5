"""Drop-net: which of its two branches a layer uses (Zhu et al. 2020, section 4.2).

Beside it stand the random numbers that it draws, and the gradients of the branch that it leaves out.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Iterator, List, Tuple

import torch
from fairseq.distributed.utils import get_global_rank, get_global_world_size
from torch import Tensor, nn


class DropNet(nn.Module):
    """Draws whether a layer uses its NMT branch alone, BERT's branch alone, or both.

    In training U ~ uniform[0, 1] is drawn for each layer and batch.  U < p_net / 2 takes the NMT branch alone,
    U > 1 - p_net / 2 takes BERT's branch alone, and any other U takes both.  Evaluation always takes both.

    Args:
        p_net: the paper's p_net, in [0, 1].  (The authors' code takes p_net / 2.)
    """

    def __init__(self, p_net: float) -> None:
        super().__init__()
        self.p_net = p_net

    def forward(self) -> Tuple[bool, bool]:
        """Return whether the NMT branch is taken alone, and whether BERT's branch is."""
        if not self.training or self.p_net == 0:
            return False, False
        # torch's CPU generator gives the same numbers again after a resume, and nothing waits for the GPU
        u = torch.rand(1)
        return bool(u < self.p_net / 2), bool(u > 1 - self.p_net / 2)


_is_seeded: "ContextVar[bool]" = ContextVar("is_seeded", default=False)


@contextmanager
def batch_rng(training: bool) -> Iterator[None]:
    """Let torch's CPU generator draw numbers of this batch's own, such as drop-net's U; in training only.

    fairseq seeds all ranks alike before each update, so that all of them would draw the same numbers.  Batch n of rank
    r of W ranks is the batch n W + r of an update in one process with W times the ``--update-freq``.  Each rank
    therefore draws a seed for each of the W batches and uses its own.  Both ways of training draw the same numbers.
    Where a batch is read several times, the outer context seeds, and the inner ones go on.
    """
    if not training or _is_seeded.get():
        yield
        return
    seeds = torch.randint(2**62, (get_global_world_size(),))
    before = _is_seeded.set(True)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seeds[get_global_rank()]))
        try:
            yield
        finally:
            _is_seeded.reset(before)


def with_zero_gradients(x: Tensor, *unused: Tensor) -> Tensor:
    """Return *x*; in the backward pass the tensors *unused* get zeros, as if they had been used times zero.

    DDP needs a gradient for each parameter in each step, and Adam moves a parameter by its momentum even then.
    """
    return _ZeroGradients.apply(x, *unused)


def after_layer_drop(x: Tensor, layers: nn.ModuleList) -> Tuple[Tensor, List[nn.Module]]:
    """Return *x* and those *layers* that LayerDrop leaves in (Fan et al. 2020); the others get zero gradients."""
    chosen = list(layers)  # fairseq's list of layers draws them
    if len(chosen) < len(layers):
        dropped = [layer for layer in layers.children() if layer not in chosen]
        x = with_zero_gradients(x, *nn.ModuleList(dropped).parameters())
    return x, chosen


class _ZeroGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *unused: Tensor) -> Tensor:
        ctx.save_for_backward(*unused)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, ...]:
        return (*gradients, *map(torch.zeros_like, ctx.saved_tensors))
