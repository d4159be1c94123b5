"""A disk that is full, or read-only, ends training with an error and leaves the checkpoint before as it was."""

import contextlib
import os

import pytest
from workspace import load, updates


@pytest.mark.parametrize("checkpoints", [0, 0.5, 1.5])
def test_a_full_disk_keeps_the_checkpoint_before(workspace, small_disk, checkpoints):
    """The disk has room for so many *checkpoints* more; with one and a half it is checkpoint_last.pt that fails."""
    disk = small_disk("2m")

    def train(until, **options):
        flags = ("--no-epoch-checkpoints", "--save-interval-updates", 2, "--max-update", until)
        return workspace.train(*flags, save_dir=disk / "save", **options)

    train(2)
    last, filler = disk / "save" / "checkpoint_last.pt", disk / "filler"
    before = last.read_bytes()
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    os.truncate(filler, filler.stat().st_size - int(checkpoints * len(before)))
    failed = train(4, ok=False)
    assert failed.returncode != 0
    assert "No space left on device" in failed.stdout + failed.stderr
    assert last.read_bytes() == before
    assert (disk / "save" / "checkpoint_1_4.pt").exists() == (checkpoints > 1)
    filler.unlink()
    train(4)
    assert updates(load(last)) == 4
