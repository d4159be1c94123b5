"""Work whose results are files: the ranks of a training share it, and need no locks.

Rank r of n makes the parts r, r + n, ... and then waits for those of the other ranks.  If no new one appears for ten
minutes, it makes them.  Two jobs that do the same work at once do some of it twice, and nothing else happens, since
each file is written whole.
"""

import logging
import random
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import torch.distributed as dist

logger = logging.getLogger(__name__)

_SAID_AFTER = 60.0  # seconds of waiting after which the log says so, again and again
_DEAD_AFTER = 600.0  # seconds without a new part after which the ranks that wait make all that is missing
_LONGEST = timedelta(days=365)  # of work that other ranks wait for


@contextmanager
def ranks_in(folder: Optional[Path]) -> Iterator[Tuple[int, int]]:
    """Enter with (r, n): this process is number r of the n ranks of the training that work in *folder*.

    A folder of that name may be another one on another machine.  Ranks have it in common if its number and the time of
    its last change are equal; if it changes meanwhile, some work is done twice.  All ranks enter, with None if they
    have nothing to do there, and wait for each other.  Where they have several folders, they also leave together: in
    the training's next operation, NCCL would wait for ten minutes only.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        yield 0, 1
        return
    state = None if folder is None else folder.stat()
    own = None if state is None else (state.st_ino, state.st_mtime_ns)
    of_ranks: List[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, own)
    sharing = [rank for rank, theirs in enumerate(of_ranks) if theirs == own]
    group = None if len(sharing) == len(of_ranks) else dist.new_group(backend="gloo", timeout=_LONGEST)
    yield sharing.index(dist.get_rank()), len(sharing)
    if group is not None:
        dist.barrier(group)
        dist.destroy_process_group(group)


def make_together(
    missing: Callable[[], Sequence[int]],
    make: Callable[[int], None],
    rank: int,
    ranks: int,
    what: str,
    wait: bool = True,
) -> None:
    """Make the missing parts r, r + n, ... of a piece of work, *rank* r of n *ranks*, and *wait* until none is missing.

    The function *missing* returns the numbers of the parts that are missing now; *what* is made, for the log.
    """
    own = [number for number in missing() if number % ranks == rank]
    random.SystemRandom().shuffle(own)  # two jobs that begin together do little twice
    for number in own:
        _make_one(number, missing, make)
    begin = said = changed = time.monotonic()
    before: Sequence[int] = []
    dead = False
    while wait and (left := missing()):
        now = time.monotonic()
        if left != before:
            before, changed = left, now
        if not dead and now - changed > _DEAD_AFTER:  # a rank of another machine has died, which nothing else tells
            dead = True
            logger.warning(f"{what}: no new part for ten minutes, so this process makes the {len(left):,} missing ones")
        if dead:
            _make_one(random.SystemRandom().choice(left), missing, make)
            continue
        if now - said > _SAID_AFTER:
            said = now
            logger.info(
                f"{what}: waiting for other processes, which make {len(left):,} parts, such as number {left[0]}"
            )
        time.sleep(min(1.0, 0.01 + (now - begin) / 10))


def _make_one(number: int, missing: Callable[[], Sequence[int]], make: Callable[[int], None]) -> None:
    if number in missing():
        try:
            make(number)
        except Exception:
            if number in missing():
                raise  # otherwise another process has made it, and removed what this one had begun
