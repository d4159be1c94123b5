"""Makes the word pieces of a data set.  Those of a corpus are made once, and all processes and later runs map them.

They lie in a folder whose name has a hash of everything that they depend on, so nothing is ever compared.

Small data sets are tokenised by each process in its memory: the time, a second or two with a fast tokenizer, costs
less than files that nobody needs again.  So nothing is written for the lines of fairseq-interactive, and for usual
test sets.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from array import array
from contextlib import suppress
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Callable, Collection, Dict, Iterator, List, Optional, Sequence, Set

import numpy as np
from fairseq import data as fairseq_data
from fairseq.data.bucket_pad_length_dataset import BucketPadLengthDataset
from fairseq.data.indexed_dataset import data_file_path, index_file_path
from torch.utils.data import ConcatDataset as ConcatTexts

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.document_context import with_context
from bert_fused_plugin.data.shared_work import make_together, ranks_in
from bert_fused_plugin.data.word_pieces import META, WordPieces
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.progress import Progress

logger = logging.getLogger(__name__)

FORMAT = 2  # a change of what is made of a sentence, or of the files, needs another number
KEPT_FROM = 20_000  # sentences
_PARTS_FOLDER = "parts"  # until they are joined
_PART = 20_000  # sentences that are tokenised, and lost if the process is killed, together
_CHUNK = 10_000  # sentences tokenised at once


class Sentences:
    """The sentences of a data set for BERT.

    A fast tokenizer of Hugging Face uses all processor cores for a chunk of sentences, unless RAYON_NUM_THREADS or
    TOKENIZERS_PARALLELISM says otherwise.  Several processes on the same cores share these cores.  A slow one uses one.

    For the arguments see `BertPairDataset`.
    """

    def __init__(
        self,
        dataset: fairseq_data.LanguagePairDataset,
        bridge: DictionaryBridge,
        texts: Optional[ConcatTexts[str]] = None,
        document_starts: Collection[int] = (),
    ) -> None:
        self.dataset = dataset
        self._bridge = bridge
        self._texts = texts
        self._document_starts = document_starts

    def __len__(self) -> int:
        return len(self.dataset)

    def word_pieces(self, start: int, stop: int, read: Callable[[int], None] = lambda count: None) -> WordPieces:
        """Return the word pieces of the sentences from index *start* to before *stop*; *read* counts sentences."""
        begin = max(0, start - self._bridge.context)

        def chunks() -> Iterator[List[List[int]]]:
            for first in range(begin, stop, _CHUNK):
                chunk = range(first, min(first + _CHUNK, stop))
                yield self._pieces(chunk)
                read(len(chunk))

        pieces = chain.from_iterable(chunks())
        rows = with_context(self._bridge, pieces, self._document_starts, begin)
        flat, sizes = array("i"), array("q", [0])
        for row in islice(rows, start - begin, None):
            flat.extend(row)
            sizes.append(len(row))
        return WordPieces(np.asarray(flat, dtype=np.int32), np.cumsum(sizes, dtype=np.int64))

    def digest(self) -> Optional[str]:
        """Return a hash of everything that the word pieces depend on, or None if the sentences are in no files."""
        source, bridge, texts = content_identity(self.dataset.src), self._bridge, self._texts
        if source is None:
            return None
        identity = [FORMAT, source, bridge.identity(), version("tokenizers"), sorted(self._document_starts)]
        identity.append(version("sacremoses") if bridge.detok == "moses" else None)
        files: Sequence[Any] = () if texts is None else texts.datasets
        identity.append([file.digest for file in files] or None)
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    def _pieces(self, indices: range) -> List[List[int]]:
        """Return the word pieces of the sentences with these *indices*, without special tokens."""
        if self._texts is not None:
            return self._bridge.word_pieces([self._texts[i] for i in indices])
        return self._bridge.word_pieces_of_tokens([self.dataset.src[i].tolist() for i in indices])


def kept_word_pieces(sentences: Sentences, folders: Sequence[Path], name: str) -> WordPieces:
    """Return the word pieces of *sentences*, from files if there are many.

    All *folders* are looked into, in this order, and the first one that can be written gets new ones, in a folder whose
    name begins with *name*.
    """
    if not folders or len(sentences) < KEPT_FROM:
        return sentences.word_pieces(0, len(sentences))
    digest = sentences.digest()
    reasons = ["nothing tells which sentences --dataset-impl has read"] if digest is None else []
    places = [] if digest is None else [folder / f"{name}-{digest}" for folder in folders]
    for place in places:
        found = _loaded(place)
        if found is not None:
            with ranks_in(None):  # where another rank may have to make them
                logger.info(f"the word pieces of {name} are kept in {found.folder}")
                return found
    for place in places:
        problem = _problem_of(place, sentences)
        if not problem:
            with ranks_in(place) as (rank, ranks):
                return _made(sentences, place, rank, ranks)
        reasons.append(f"{place.parent} cannot be used ({problem})")
    folder = "a --bert-cache or a data directory that can be written, on a disk with room"
    remedy = folder if places else "--dataset-impl mmap"
    logger.warning(
        f"each process makes the word pieces of {name} by itself, each time they are loaded, since "
        f"{' and '.join(reasons)}; to keep them, give {remedy}"
    )
    with ranks_in(None), Progress("word pieces for BERT", len(sentences), "sentences", say=logger.info) as shown:
        return sentences.word_pieces(0, len(sentences), shown.update)


def _loaded(place: Path) -> Optional[WordPieces]:
    """Return the word pieces in the folder *place*, or None if they are not complete there."""
    try:
        return WordPieces.load(place)
    except OSError:  # they are not there, or making them meets the same error of the system
        return None
    except (ValueError, KeyError, EOFError) as error:
        logger.warning(f"{place} cannot be read ({error}): the word pieces are made anew")
        with suppress(OSError):
            (place / META).unlink()
        return None


def _problem_of(place: Path, sentences: Sentences) -> str:
    """Return why the folder *place* cannot get the word pieces of *sentences*, or an empty text."""
    pieces = int(np.sum(sentences.dataset.src_sizes))  # about as many as the source has symbols
    needed = 2 * (8 * len(sentences) + 4 * pieces)  # the parts, and what they are joined to
    parts = place / _PARTS_FOLDER  # in place itself, a file would change the time that `ranks_in` looks at
    try:
        parts.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=parts).close()
        made = sum(part.stat().st_size for part in parts.glob("*.npz"))  # by a killed process
        free = shutil.disk_usage(place).free + made
    except OSError as error:
        return str(error)
    if needed <= 0.98 * free:
        return ""
    return f"about {needed / 2**20:,.0f} MiB must be written, and {free / 2**20:,.0f} MiB are free"


def _made(sentences: Sentences, place: Path, rank: int, ranks: int) -> WordPieces:
    """Make the word pieces of *sentences* in the folder *place* with the other *ranks*, and return them."""
    starts = range(0, len(sentences), _PART)
    folder, meta = place / _PARTS_FOLDER, place / META
    files = [folder / f"{number:05}.npz" for number in range(len(starts))]

    def missing() -> List[int]:
        there: Set[str] = set()
        with suppress(FileNotFoundError):  # the first rank that sees meta removes it
            there.update(os.listdir(folder))
        return [] if meta.exists() else [number for number, file in enumerate(files) if file.name not in there]

    def size(number: int) -> int:
        return min(_PART, len(sentences) - starts[number])

    def make(number: int) -> None:
        pieces = sentences.word_pieces(starts[number], starts[number] + size(number))
        pieces.save_part(files[number])
        shown.update(len(pieces))

    logger.info(f"the word pieces of {len(sentences):,} sentences are made, and kept in {place}")
    own = sum(size(number) for number in missing() if number % ranks == rank)
    try:
        with Progress("word pieces for BERT", own, "sentences", say=logger.info) as shown:
            make_together(missing, make, rank, ranks, str(place))
            make_together(
                lambda: [] if meta.exists() else [0], lambda _: WordPieces.save(files, place), rank, ranks, str(place)
            )
        for leftover in (folder, *place.glob(".*")):  # of killed processes
            shutil.rmtree(leftover, ignore_errors=True)
        return WordPieces.load(place)
    except OSError as error:
        raise BertFusedError(
            f"{place} cannot be written or read ({error}); make room on its disk and start again, or remove the folder"
        ) from error


def content_identity(dataset: Any) -> Optional[List[Any]]:
    """Return what tells the sentences of *dataset*, for JSON; None if it changes files in an unknown way, or has none.

    The files are hashed from end to end, since a file of other sentences may have the same size and time: 40 MB in 0.1
    seconds.
    """
    identity = _KINDS.get(type(dataset), lambda unknown: [None])(dataset)
    return None if None in identity else [type(dataset).__name__, *identity]


def _files(prefix: str) -> List[Any]:
    paths = [Path(index_file_path(prefix)), Path(data_file_path(prefix))]
    contents = [np.memmap(path, mode="r").data if path.stat().st_size else b"" for path in paths]
    return [hashlib.blake2b(content).hexdigest() for content in contents]


_KINDS: Dict[type, Callable[[Any], List[Any]]] = {
    fairseq_data.MMapIndexedDataset: lambda d: _files(d._path),
    fairseq_data.IndexedDataset: lambda d: _files(d.path),  # --dataset-impl lazy
    fairseq_data.IndexedCachedDataset: lambda d: _files(d.path),
    fairseq_data.ConcatDataset: lambda d: [*d.sample_ratios, *map(content_identity, d.datasets)],
    fairseq_data.AppendTokenDataset: lambda d: [str(d.token), content_identity(d.dataset)],
    fairseq_data.StripTokenDataset: lambda d: [str(d.id_to_strip), content_identity(d.dataset)],
    fairseq_data.TruncateDataset: lambda d: [d.truncation_length, content_identity(d.dataset)],
    BucketPadLengthDataset: lambda d: [content_identity(d.dataset)],  # BERT does not read the padding
}
