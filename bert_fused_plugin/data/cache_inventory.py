"""What a directory of ``--bert-cache`` holds, for the command that shows, verifies and prunes it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from bert_fused_plugin.data.cache_descriptions import DESCRIPTION, Description, read_description
from bert_fused_plugin.data.cache_index import INDEX_SUFFIX
from bert_fused_plugin.data.cache_stamps import STAMPS, file_state, read_stamps, stamp
from bert_fused_plugin.data.feature_segments import SUFFIX, Segment, is_sound, open_segment
from bert_fused_plugin.data.tensor_files import UNFINISHED
from bert_fused_plugin.data.work_locks import try_lock
from bert_fused_plugin.errors import BertFusedError

_LOCK = "lock"
_DTYPES: "Dict[str, np.dtype[Any]]" = {"fp16": np.dtype(np.float16), "fp32": np.dtype(np.float32)}
_NAME = re.compile(rf"[0-9a-f]{{32}}-({'|'.join(_DTYPES)})")
_FILE = re.compile(
    rf"[0-9a-f]{{32}}({re.escape(SUFFIX)}|{re.escape(INDEX_SUFFIX)})"
    rf"|(index|[0-9]+-of-[0-9]+)({re.escape(UNFINISHED)}|\.lock)|{_LOCK}|{STAMPS}|{re.escape(DESCRIPTION)}"
)  # what a cache writes; whatever else is in a folder belongs to the user


@dataclass(frozen=True)
class Inventory:
    """What the folder of one BERT holds.

    Attributes:
        folder: the folder.
        description: what it says about its BERT, if it says so.
        segments: number of segments.
        sentences: number of sentences in those that can be read.
        size: bytes of all files.
        verified: number of segments that have been verified.
        indexes: number of indexes.
        unfinished: files that a process has left, or is writing.
    """

    folder: Path
    description: Optional[Description]
    segments: int
    sentences: int
    size: int
    verified: int
    indexes: int
    unfinished: List[Path]


def cache_folders(directory: Path) -> List[Path]:
    """Return the folders of *directory* that hold states, one for each BERT and number format.

    Raises:
        BertFusedError: there are none.
    """
    found = []
    if directory.is_dir():
        found = sorted(path for path in directory.iterdir() if path.is_dir() and _NAME.fullmatch(path.name))
    if not found:
        raise BertFusedError(
            f"{directory} must be a directory that --bert-cache has filled, and it holds no states of any BERT; give "
            "the directory of --bert-cache"
        )
    return found


def take_inventory(folder: Path) -> Inventory:
    """Return what the *folder* of one BERT holds; this reads no states."""
    stamps = read_stamps(folder)
    files = segments_of(folder)
    headers = [_opened(file) for file in files]
    indexes = [file for file in folder.glob(f"*{INDEX_SUFFIX}") if is_of_cache(file)]
    return Inventory(
        folder,
        read_description(folder),
        len(files),
        sum(header.sizes.shape[0] for header in headers if header is not None),
        sum(path.stat().st_size for path in folder.iterdir() if is_of_cache(path)),
        sum(stamps.get(file.name) == file_state(file) for file in files),
        len(indexes),
        sorted(file for file in folder.glob(f"*{UNFINISHED}") if is_of_cache(file)),
    )


def _opened(file: Path) -> Optional[Segment]:
    try:
        return open_segment(file)
    except OSError:  # verify_segments says which one, and why
        return None


def segments_of(folder: Path) -> List[Path]:
    """Return the files of all segments of a *folder*."""
    return sorted(file for file in folder.glob(f"*{SUFFIX}") if is_of_cache(file))


def is_of_cache(path: Path) -> bool:
    """Return whether *path* is a file that a cache has written, by its name, and not a user's own file."""
    return _FILE.fullmatch(path.name) is not None and path.is_file()


def verify_segments(folder: Path, advance: Callable[[int], None]) -> Dict[Path, Optional[OSError]]:
    """Read all segments of a *folder*, whether they have been verified or not, and return those that are not sound.

    Sound segments get a stamp.

    Args:
        folder: the folder of one BERT.
        advance: a function that is told the number of bytes of each segment that has been read.

    Returns:
        Each damaged segment with None, and each one that cannot be read with the error that says why.
    """
    dtype = _DTYPES[folder.name.rpartition("-")[2]]
    bad: Dict[Path, Optional[OSError]] = {}
    for file in segments_of(folder):
        try:
            state = file_state(file)
            segment = open_segment(file, dtype=dtype)
            if segment is not None and is_sound(file, segment):
                stamp(folder, file.name, state)
            else:
                bad[file] = None
        except FileNotFoundError:  # another process has just removed it
            continue
        except OSError as error:
            bad[file] = error
            continue
        advance(state[0])
    return bad


def folder_of(name: str, folders: List[Path]) -> Path:
    """Return the one of *folders* whose name begins with *name*.

    Raises:
        BertFusedError: there is no such folder, or there are several.
    """
    found = [folder for folder in folders if name and folder.name.startswith(name)]
    if len(found) != 1:
        raise BertFusedError(
            f"{name!r} must be the name of one folder, or its beginning, and it fits {len(found)}; the folders are "
            f"{', '.join(folder.name for folder in folders)}"
        )
    return found[0]


def is_at_work(folder: Path) -> bool:
    """Return whether a process computes states for this *folder* now."""
    for lock in folder.glob("*.lock"):
        with try_lock(folder, lock.stem) as locked:
            if not locked:
                return True
    return False


def left_by_killed_processes(inventory: Inventory) -> List[Path]:
    """Return the unfinished files that no process is writing."""
    found = []
    for file in inventory.unfinished:
        with try_lock(inventory.folder, file.stem) as locked:
            if locked:
                found.append(file)
    return found


def remove(path: Path) -> List[Path]:
    """Remove an unfinished file, or what a cache has written into the folder of a BERT, and that folder if it is empty.

    Of a symbolic link to a folder, only the link is removed.

    Returns:
        What else is in the folder, and stays.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return []
    for file in path.iterdir():
        if is_of_cache(file) or (file.is_symlink() and not file.exists() and _FILE.fullmatch(file.name)):
            file.unlink(missing_ok=True)
    others = sorted(path.iterdir())
    if not others:
        path.rmdir()
    return others
