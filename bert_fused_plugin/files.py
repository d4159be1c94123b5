"""Files and folders: the paths of command lines, and what is written whole, or not at all."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional

from safetensors import SafetensorError

from bert_fused_plugin.errors import BertFusedError


def given_path(text: str) -> Path:
    """Return the path that *text* of a command line names; the shell leaves the ``~`` of ``--flag=~/FILE``."""
    return Path(text).expanduser()


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


@contextmanager
def written_output(path: Path, flag: str = "--output") -> Iterator[Path]:
    """Yield a path for a new file, as `written_whole` does, for the *path* of a *flag*.

    Raises:
        BertFusedError: The new file cannot be written; an earlier file at *path* is then unchanged.
    """
    try:
        with written_whole(path) as new:
            yield new
    except (OSError, RuntimeError, SafetensorError) as error:  # torch and safetensors raise these if the disk is full
        reason = " ".join(str(error).split())
        raise BertFusedError(
            f"{flag} {path} cannot be written, and nothing was changed ({reason}); "
            "give a path in an existing directory that you may write to, on a disk with free space"
        ) from error
