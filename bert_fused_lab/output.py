"""How the commands write files and folders: as a whole, or not at all."""

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List

from safetensors import SafetensorError

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole


def directory_errors(flag: str, path: Path) -> List[str]:
    """Return a sentence if the *path* of a *flag* cannot be a new directory, or an empty one."""
    if not path.resolve().parent.is_dir():
        return [f"{flag} {path}: {path.parent} is no directory; make it first"]
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        return [f"{flag} {path} exists and is not empty; name a new directory, or remove this one first"]
    return []


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


def write_json(path: Path, content: Dict[str, Any]) -> None:
    """Write *content*; on a full disk, the file stays as it was."""
    _write(path, json.dumps(content, ensure_ascii=False) + "\n")


def write_lines(path: Path, texts: Iterable[str]) -> None:
    """Write a line for each of *texts*, with single spaces, since not all programs agree on what ends a line."""
    _write(path, "".join(" ".join(text.split()) + "\n" for text in texts))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as new:
        new.write_text(text, encoding="utf-8")
