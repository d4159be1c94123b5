"""Files and folders: those of a model, and what is written whole, or not at all."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional


def file_of_model(name: str, file: str) -> Optional[str]:
    """Return the path of a *file* of the encoder *name*, a directory or a name on the hub; None: it cannot be found."""
    from transformers.utils import cached_file

    quiet = {f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors", "gated_repo")}
    try:
        return cached_file(name, file, **quiet)
    except (OSError, ValueError):  # no name that the hub could have
        return None


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path for a new file or folder, which replaces *path*, or what it links to, once it is on the disk.

    A process that is killed leaves a hidden folder beside *path*.

    Raises:
        OSError: the file cannot be written; an earlier file at *path* is then unchanged.
    """
    place = path.resolve()
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as folder:
        new = Path(folder) / place.name
        yield new
        usual = Path(folder) / "usual"
        usual.touch()
        for file in [new] if new.is_file() else filter(Path.is_file, new.rglob("*")):
            file.chmod(usual.stat().st_mode)  # safetensors lets only its user read what it writes
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        if place.is_dir():
            place.rename(Path(folder) / "old")
        os.replace(new, place)
