"""The raw source text of ``--bert-text``, which BERT reads instead of text rebuilt from fairseq's ids."""

import codecs
import hashlib
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, count, takewhile
from pathlib import Path
from typing import Iterator, List, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from bert_fused_plugin.errors import BertFusedError

_BLOCK = 2**22  # bytes of a file that are looked at together


class TextFile:
    """The lines of a file in UTF-8, which stay on the disk until they are asked for.

    The file is read once from end to end, to count its lines and to check its encoding.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: the file is not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = path.stat().st_size
        decoder, digest, ends, last = codecs.getincrementaldecoder("utf-8")(), hashlib.blake2b(digest_size=32), 0, b""
        for block in self._blocks():
            decoder.decode(block)
            digest.update(block)
            ends += block.count(b"\n")
            last = block[-1:]
        decoder.decode(b"", final=True)
        self.digest = digest.hexdigest()
        self._count = ends + (last not in (b"", b"\n"))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> str:
        """Return line *index* without its end; only a line feed ends a line."""
        start = int(self._ends[index - 1]) + 1 if index else 0
        end = int(self._ends[index]) if index < len(self._ends) else self._size
        encoding = "utf-8" if index else "utf-8-sig"  # a byte order mark at the start is no text
        return bytes(self._bytes[start:end]).decode(encoding).rstrip("\r\n")

    def _blocks(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            yield from iter(lambda: file.read(_BLOCK), b"")

    @cached_property
    def _bytes(self) -> NDArray[np.uint8]:
        return np.memmap(self._path, np.uint8, mode="r") if self._size else np.zeros(0, dtype=np.uint8)

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        found, start = [np.zeros(0, dtype=np.int64)], 0
        for block in self._blocks():
            found.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + start)
            start += len(block)
        return np.concatenate(found)


class RawText:
    """The lines of several files, one file after the other."""

    def __init__(self, files: Sequence[TextFile]) -> None:
        self._files = files
        self._starts = [0, *accumulate(map(len, files))]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> str:
        """Return line *index*."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        file = bisect_right(self._starts, index) - 1
        return self._files[file][index - self._starts[file]]

    def digests(self) -> List[str]:
        """Return a hash of each file."""
        return [file.digest for file in self._files]


def read_raw_text(
    directory: Optional[str], split: str, lang: str, size: int, *, combine: bool = False, upsample: int = 1
) -> Optional[RawText]:
    """Return the *size* lines of ``directory/{split}.{lang}``; None without a *directory*.

    Args:
        directory: directory of ``--bert-text``.
        split: name of the split, such as ``train``.
        lang: source language.
        size: number of sentences in the binarised *split*.
        combine: whether to add the lines of ``{split}1``, ``{split}2``, ... if they exist, as fairseq does for
            training.
        upsample: number of times that the lines of ``{split}`` come before such others (``--upsample-primary``).

    Raises:
        BertFusedError: the directory does not hold the text of *size* sentences.
    """
    if directory is None:
        return None
    folder = Path(directory)
    files = [folder / f"{split}.{lang}"]
    if combine:
        files += takewhile(Path.exists, (folder / f"{split}{k}.{lang}" for k in count(1)))
    primary, *others = [_opened(file, directory, split) for file in files]
    text = RawText([primary] * (upsample if others else 1) + others)
    if len(text) != size:
        has = f"{' and '.join(map(str, files))} {'have' if others else 'has'} {len(text)} lines"
        if upsample > 1 and others:
            has += f" (--upsample-primary {upsample})"
        raise BertFusedError(
            f"--bert-text {directory}: {has}, but the binarised {split!r} has {size} sentences; give the raw text of "
            "exactly these sentences, line by line, with a file for each binarised one"
        )
    return text


def _opened(path: Path, directory: str, split: str) -> TextFile:
    try:
        return TextFile(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BertFusedError(
            f"--bert-text {directory}: {path} cannot be read as UTF-8 text ({error}); "
            f"give the raw source text of {split!r}, one sentence a line"
        ) from error
