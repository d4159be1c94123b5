"""Which segments of the feature cache have been verified, so that nobody reads them all again."""

import time
from pathlib import Path
from typing import Dict, Tuple

STAMPS = "verified"
CLOCK = 10 * 10**9  # nanoseconds; no file system has a clock that is coarser

FileState = Tuple[int, int]  # size in bytes, time of the last change in nanoseconds


def file_state(file: Path) -> FileState:
    """Return what a file has changed by if it was written to, or copied, since."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def read_stamps(folder: Path) -> Dict[str, FileState]:
    """Return the names of the segments that some process has verified, each with the state of its file then."""
    try:
        text = (folder / STAMPS).read_text(encoding="ascii", errors="replace")
    except OSError:
        return {}
    stamps = {}
    for line in text.splitlines():  # a line that a full disk or a killed process cut counts for nothing
        name, *numbers = line.split(" ")
        if len(numbers) == 3 and numbers[2] == "." and all(number.isdecimal() for number in numbers[:2]):
            stamps[name] = (int(numbers[0]), int(numbers[1]))
    return stamps


def stamp(folder: Path, name: str, state: FileState) -> None:
    """Note that the segment *name* was verified in this *state*; a folder that cannot be written stays without.

    A file that has changed a moment ago gets no stamp, since it might change again within a tick of the clock of its
    file system.  Each process appends whole lines, so none has to wait for another.
    """
    if time.time_ns() - state[1] < CLOCK:
        return
    try:
        with open(folder / STAMPS, "ab", buffering=0) as file:
            file.write(f"{name} {state[0]} {state[1]} .\n".encode("ascii"))
    except OSError:
        return
