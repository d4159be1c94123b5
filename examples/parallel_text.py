"""Parallel text: files in which each line is a sentence and lines with the same number are translations of each other.

python examples/parallel_text.py FILE FILE...

The command checks the files and prints an error if they are not parallel.
"""

import sys
from pathlib import Path
from typing import List, Sequence


def check(paths: Sequence[Path]) -> None:
    """Stop with an error unless all *paths* are UTF-8 text with the same number of lines, at least one."""
    counts = [_count(path) for path in paths]
    if len(set(counts)) > 1:
        found = ", ".join(f"{path} {count:,}" for path, count in zip(paths, counts))
        raise SystemExit(f"error: files of one split must have the same number of lines, but these have: {found}")
    if not counts[0]:
        raise SystemExit(f"error: {', '.join(map(str, paths))}: empty; a sentence a line is wanted")


def read(path: Path) -> List[str]:
    """Return a file's lines; only newlines separate them, as in fairseq."""
    with path.open(encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file]


def _count(path: Path) -> int:
    count = 0
    try:
        with path.open("rb") as file:
            for line in file:
                count += 1
                line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SystemExit(
            f"error: {path}, line {count}, is not UTF-8 ({error.reason}); convert it, as by iconv"
        ) from None
    except OSError as error:
        raise SystemExit(f"error: {path} cannot be read ({error.strerror})") from None
    return count


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"error: usage: {sys.argv[0]} FILE FILE...")
    check([Path(name) for name in sys.argv[1:]])
