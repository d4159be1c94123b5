"""Random numbers that belong to a batch, whichever process computes it."""

from contextlib import contextmanager
from typing import Iterator

import torch
from fairseq.distributed.utils import get_global_rank, get_global_world_size


@contextmanager
def batch_rng(training: bool) -> Iterator[None]:
    """Let torch's CPU generator draw numbers of this batch's own, such as drop-net's U; in training only.

    fairseq seeds all ranks alike before each update, so that all of them would draw the same numbers.  Batch n of rank
    r of W ranks is the batch n W + r of an update in one process with W times the ``--update-freq``.  Each rank
    therefore draws a seed for each of the W batches and uses its own.  Both ways of training draw the same numbers.
    """
    if not training:
        yield
        return
    seeds = torch.randint(2**62, (get_global_world_size(),))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seeds[get_global_rank()]))
        yield
