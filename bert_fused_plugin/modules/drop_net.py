"""Drop-net: which of its two branches a layer uses (Zhu et al. 2020, section 4.2), and the numbers that it draws."""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Iterator, Tuple

import torch
from fairseq.distributed.utils import get_global_rank, get_global_world_size
from torch import nn


class DropNet(nn.Module):
    """Draws whether a layer uses its NMT branch alone, BERT's branch alone, or both.

    In training U ~ uniform[0, 1] is drawn for each layer and batch.  U < p_net / 2 takes the NMT branch alone,
    U > 1 - p_net / 2 takes BERT's branch alone, and any other U takes both.  Evaluation always takes both.  (The
    authors' code takes p_net / 2.)
    """

    def __init__(self, p_net: float) -> None:
        super().__init__()
        self.p_net = p_net

    def forward(self) -> Tuple[bool, bool]:
        """Return whether the NMT branch is taken alone, and whether BERT's branch is."""
        if not self.training or self.p_net == 0:
            return False, False
        # torch's CPU generator gives the same numbers again after a resume, and nothing waits for the GPU
        u = float(torch.rand(1))
        return u < self.p_net / 2, u > 1 - self.p_net / 2


_is_seeded: "ContextVar[bool]" = ContextVar("is_seeded", default=False)


@contextmanager
def batch_rng(training: bool) -> Iterator[None]:
    """Let torch's CPU generator draw numbers of this batch's own, such as drop-net's U; in training only.

    fairseq seeds all ranks alike before each update, so that all of them would draw the same numbers.  Each rank
    therefore draws a seed for each rank's batch and uses its own, and one process with as many times the
    ``--update-freq`` draws the same.  Where a batch is read several times, the outer context seeds.
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
