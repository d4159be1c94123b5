"""Files and folders that are written whole, or not at all."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path for a new file or folder, which replaces *path* once it is complete and on the disk.

    If *path* is a symbolic link, the link stays and its target is replaced.  A process that is killed leaves a hidden
    folder beside *path*, whose name begins with a dot and the name of *path*.

    Raises:
        OSError: the file cannot be written; an earlier file at *path* is then unchanged.
    """
    place = path.resolve()
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as folder:
        new = Path(folder) / place.name
        yield new
        if new.is_file():
            usual = Path(folder) / "usual"
            usual.touch()
            new.chmod(usual.stat().st_mode)  # safetensors lets only its user read what it writes
            with new.open("rb") as file:
                os.fsync(file.fileno())
        os.replace(new, place)
