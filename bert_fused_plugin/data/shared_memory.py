"""The shared memory through which worker processes pass batches, which containers make small."""

import shutil
from pathlib import Path
from typing import Optional

SHARED_MEMORY = Path("/dev/shm")

_ENOUGH = 2**30  # bytes; Docker's default is 64 MiB, and some batches of cached states fill that


def small_shared_memory() -> Optional[str]:
    """Return a sentence with the remedy if the shared memory is too small for batches of BERT's states, else None."""
    try:
        size = shutil.disk_usage(SHARED_MEMORY).total
    except OSError:  # this system has none
        return None
    if size >= _ENOUGH:
        return None
    return (
        f"{SHARED_MEMORY} has only {size / 2**20:,.0f} MiB, and worker processes pass batches with BERT's states "
        "through it; if the run ends with a bus error, or with 'unable to write to file', start the container with "
        "--shm-size 2g or --ipc=host, or give --num-workers 0"
    )
