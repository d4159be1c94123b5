"""The word pieces of a corpus are made once, and all processes and later runs map them into memory.

A file of word pieces has a hash of everything that they depend on in its name, so files are never compared, and what
is made of other data, or by other settings, is another file.  A file may be deleted at any time; it is made again.

Processes that need the same file, such as the ranks of a training, share the work: each of them makes parts that no
other process works on.  The parts stay in a folder beside the file until one process joins them.  A part of a process
that was killed is made by another one, or by the next run.

Small data sets are tokenised by each process in its memory: a second or two for each of them costs less than files
that nobody needs again.  So nothing is written for the lines of fairseq-interactive, and for usual test sets.
"""

import errno
import logging
import os
import re
import shutil
import time
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence

from bert_fused_plugin.data.piece_files import join_parts, map_sound, write_part
from bert_fused_plugin.data.tokenizing import Sentences
from bert_fused_plugin.data.word_pieces import WordPieces
from bert_fused_plugin.data.work_locks import each_part_locked
from bert_fused_plugin.data.work_progress import Progress, progress

logger = logging.getLogger(__name__)

KEPT_FROM = 50_000  # sentences
_PART = 50_000  # sentences that are tokenised, and lost if the process is killed, together
_OLD = 24 * 3600  # seconds after which nobody works on a folder of parts that has not changed
_PARTS = re.compile(r".*-[0-9a-f]{32}\.parts", re.DOTALL)  # the name of a folder of parts
_JOIN = "join"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_WHAT, _UNIT = "word pieces for BERT", "sentences"


def kept_word_pieces(sentences: Sentences, folders: Sequence[Path], name: str) -> WordPieces:
    """Return the word pieces of *sentences*, from a file if there are many.

    Args:
        sentences: the sentences of one data set.
        folders: folders that are looked into, in this order; the first one that can be written gets a new file.
        name: beginning of the file's name, for people.
    """
    digest = sentences.digest() if folders and len(sentences) >= KEPT_FROM else None
    if digest is None:
        return _in_memory(sentences)
    files = [folder / f"{name}-{digest}.pieces" for folder in folders]
    problems: Dict[Path, OSError] = {}
    for file in files:
        found = _found(file, problems)
        if found is not None:
            logger.info(f"the word pieces of {name} are read from {file}")
            return found
    for file in files:
        if file in problems:  # the file may be sound
            continue
        try:
            return _SharedWork(sentences, file).result()
        except OSError as error:
            problems[file] = error
        found = _found(file, problems)  # another process may have made it, and removed the folder of the parts
        if found is not None:
            return found
    reasons = [f"{file.parent} cannot be used ({error})" for file, error in problems.items()]
    logger.warning(
        f"each process makes the word pieces of {name} by itself, at each start, since {', and '.join(reasons)}; to "
        "keep them, give a --bert-cache or a data directory that can be written, on a disk with room"
    )
    return _in_memory(sentences)


def _found(file: Path, problems: Dict[Path, OSError]) -> Optional[WordPieces]:
    """Return the word pieces in *file*, if it is there and sound; add to *problems* why it cannot be read."""
    try:
        return map_sound(file)
    except OSError as error:
        problems[file] = error
        return None


def _in_memory(sentences: Sentences) -> WordPieces:
    size = len(sentences)
    with progress(_WHAT, size, _UNIT, logged=size >= KEPT_FROM) as shown:
        parts = [
            sentences.word_pieces(start, min(start + _PART, size), shown.advance) for start in range(0, size, _PART)
        ]
    return WordPieces.joined(parts)


class _SharedWork:
    """Makes a file of word pieces together with other processes that want the same file.

    Args:
        sentences: the sentences.
        file: path of the file.
    """

    def __init__(self, sentences: Sentences, file: Path) -> None:
        self._sentences = sentences
        self._file = file
        self._folder = file.with_suffix(".parts")
        self._parts = [self._folder / str(i) for i in range(-(-len(sentences) // _PART))]

    def result(self) -> WordPieces:
        """Return the word pieces, from the file.

        Raises:
            OSError: the folder cannot be written, or the file cannot be read.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(self._folder)
        self._remove_damaged()
        if not self._file.exists():
            self._check_space()
            logger.info(f"the word pieces of {len(self._sentences):,} sentences are made, and kept in {self._file}")
        try:
            found = self._make() or self._make()  # once more if a part is damaged, as after a power cut
        except OSError as error:
            if error.errno in _FULL:
                self._remove_folder()
            raise
        self._remove_folder()
        if found is None:
            raise OSError(errno.EIO, "what was written is not what is read", str(self._file))
        return found

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _remove_damaged(self) -> None:
        for _ in self._locked([_JOIN]):
            if self._file.exists() and map_sound(self._file) is None:
                logger.warning(f"{self._file} is damaged: it is removed, and the word pieces are made anew")
                self._file.unlink()

    def _make(self) -> Optional[WordPieces]:
        """Make the file with other processes; return None if what they made is damaged."""
        with progress(_WHAT, len(self._sentences), _UNIT, logged=True) as shown:
            self._make_parts(shown)
            for _ in self._locked([_JOIN], shown):
                try:
                    if not self._file.exists():
                        join_parts(self._file, self._folder, self._parts, len(self._sentences))
                except (ValueError, EOFError):
                    for part in self._parts:
                        part.unlink(missing_ok=True)
        return map_sound(self._file)

    def _make_parts(self, shown: Progress) -> None:
        shown.begin_at(self._done())
        for name in self._locked([part.name for part in self._parts], shown):
            if self._file.exists():
                return
            part, start = self._folder / name, int(name) * _PART
            if not part.exists():
                stop = min(start + _PART, len(self._sentences))
                write_part(part, self._sentences.word_pieces(start, stop, shown.advance))
                shown.reach(self._done())

    def _done(self) -> int:
        """Return the number of sentences that are in parts."""
        try:
            done = sum(name.isdigit() for name in os.listdir(self._folder))
        except FileNotFoundError:  # another process has made the file of the parts, and removed them
            done = len(self._parts)
        return min(_PART * done, len(self._sentences))

    def _locked(self, parts: List[str], shown: Optional[Progress] = None) -> Iterator[str]:
        def say() -> str:
            if shown is None:
                return ""
            shown.reach(self._done())
            return f": {shown}"

        return each_part_locked(self._folder, parts, say)

    def _check_space(self) -> None:
        """Raise an OSError if the parts and the file would not fit on the disk."""
        there = sum(path.stat().st_size for path in self._parts if path.exists())
        needed = 2 * (24 * len(self._sentences) + 4 * self._sentences.expected_pieces()) - there
        free = shutil.disk_usage(self._folder).free
        if needed > 0.98 * free:
            if not there:
                self._remove_folder()
            raise OSError(
                errno.ENOSPC, f"about {needed / 2**20:,.0f} MiB are needed, and {free / 2**20:,.0f} MiB are free"
            )


def _remove_leftovers(folder: Path) -> None:
    """Remove the folders of parts beside *folder* that nobody has worked on for long."""
    for other in folder.parent.glob("*.parts"):
        if not _PARTS.fullmatch(other.name):  # a folder of the user
            continue
        try:
            is_old = time.time() - other.stat().st_mtime > _OLD
        except OSError:  # another process has removed it
            continue
        if other != folder and is_old:
            shutil.rmtree(other, ignore_errors=True)
