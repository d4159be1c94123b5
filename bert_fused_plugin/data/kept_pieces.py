"""The word pieces of a corpus are made once, and all processes and later runs map them into memory.

They lie in a folder whose name has a hash of everything that they depend on, so nothing is ever compared.  A folder may
be deleted between two runs; it is made again.

Small data sets are tokenised by each process in its memory: a second or two for each of them costs less than files
that nobody needs again.  So nothing is written for the lines of fairseq-interactive, and for usual test sets.
"""

import errno
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from bert_fused_plugin.data.shared_work import make_together, rank_in
from bert_fused_plugin.data.tokenizing import Sentences
from bert_fused_plugin.data.word_pieces import META, WordPieces
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.progress import Progress

logger = logging.getLogger(__name__)

KEPT_FROM = 50_000  # sentences
_PART = 50_000  # sentences that are tokenised, and lost if the process is killed, together


def kept_word_pieces(sentences: Sentences, folders: Sequence[Path], name: str) -> WordPieces:
    """Return the word pieces of *sentences*, from files if there are many.

    Args:
        sentences: the sentences of one data set.
        folders: folders that are looked into, in this order; the first one that can be written gets new files.
        name: beginning of the name of the folder of the files, for people.
    """
    digest = sentences.digest() if folders and len(sentences) >= KEPT_FROM else None
    if digest is None:
        return sentences.word_pieces(0, len(sentences))
    places = [folder / f"{name}-{digest}" for folder in folders]
    found = next((pieces for pieces in map(_loaded, places) if pieces is not None), None)
    if found is not None:
        rank_in(None)  # where another rank may have to make them
        logger.info(f"the word pieces of {name} are kept in {found.folder}")
        return found
    place, reasons = _first_usable(sentences, places)
    rank, ranks = rank_in(place)
    if place is not None:
        return _made(sentences, place, rank, ranks)
    logger.warning(
        f"each process makes the word pieces of {name} by itself, at each start, since {' and '.join(reasons)}; to "
        "keep them, give a --bert-cache or a data directory that can be written, on a disk with room"
    )
    return sentences.word_pieces(0, len(sentences))


def _loaded(place: Path) -> Optional[WordPieces]:
    """Return the word pieces in the folder *place*, or None if they are not complete there."""
    try:
        return WordPieces.load(place)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError) as error:
        logger.warning(f"{place} cannot be read ({error}): the word pieces are made anew")
        with suppress(OSError):
            (place / META).unlink()
        return None


def _first_usable(sentences: Sentences, places: Sequence[Path]) -> Tuple[Optional[Path], List[str]]:
    """Return the first of *places* that can get the word pieces of *sentences*, and why those before it cannot."""
    needed = 2 * (8 * len(sentences) + 4 * sentences.expected_pieces())  # the parts, and what they are joined to
    reasons: List[str] = []
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(place).free
            if not os.access(place, os.W_OK):
                raise PermissionError(errno.EACCES, "it cannot be written", str(place))
            if needed <= 0.98 * free:
                return place, reasons
            reason = f"about {needed / 2**20:,.0f} MiB must be written, and {free / 2**20:,.0f} MiB are free"
        except OSError as error:
            reason = str(error)
        reasons.append(f"{place.parent} cannot be used ({reason})")
    return None, reasons


def _made(sentences: Sentences, place: Path, rank: int, ranks: int) -> WordPieces:
    """Make the word pieces of *sentences* in the folder *place* with the other *ranks*, and return them."""
    starts = range(0, len(sentences), _PART)
    folder, meta = place / "parts", place / META
    files = [folder / f"{number:05}.npz" for number in range(len(starts))]

    def missing() -> List[int]:
        return [] if meta.exists() else [number for number, file in enumerate(files) if not file.exists()]

    def make(number: int) -> None:
        pieces = sentences.word_pieces(starts[number], min(starts[number] + _PART, len(sentences)))
        pieces.save_part(files[number])
        shown.update(len(pieces))

    def join(_: int) -> None:
        WordPieces.save(files, place)

    folder.mkdir(exist_ok=True)
    logger.info(f"the word pieces of {len(sentences):,} sentences are made, and kept in {place}")
    own = sum(min(_PART, len(sentences) - start) for start in starts[rank::ranks])
    try:
        with Progress("word pieces for BERT", own, "sentences", parts=1, say=logger.info) as shown:
            make_together(missing, make, rank, ranks, str(place))
            make_together(lambda: [] if meta.exists() else [0], join, rank, ranks, str(place))
        for leftover in (folder, *place.glob(".*")):  # of killed processes
            shutil.rmtree(leftover, ignore_errors=True)
        return WordPieces.load(place)
    except OSError as error:
        raise BertFusedError(
            f"{place} cannot be written or read ({error}); make room on its disk and start again, or remove the folder"
        ) from error
