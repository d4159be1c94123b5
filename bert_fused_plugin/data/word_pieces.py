"""BERT's input for the sentences of a data set, as flat arrays.  That of a corpus is made once, for all later runs.

It lies in a folder whose name has a hash of everything that it depends on, so nothing is ever compared.  That of small
data sets, such as usual test sets, is not kept: a fast tokenizer needs a second or two for them.
"""

import hashlib
import json
import logging
from array import array
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Callable, Collection, Dict, Iterator, List, Optional

import numpy as np
from fairseq import data as fairseq_data
from fairseq.data.bucket_pad_length_dataset import BucketPadLengthDataset
from fairseq.data.indexed_dataset import data_file_path, index_file_path
from fairseq.distributed.utils import get_global_world_size
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.document_context import with_context
from bert_fused_plugin.files import written_whole
from bert_fused_plugin.progress import Progress

logger = logging.getLogger(__name__)

FORMAT = 2  # a change of what is made of a sentence, or of the files, needs another number
KEPT_FROM = 20_000  # sentences
_CHUNK = 10_000  # sentences tokenised at once
_PIECES, _OFFSETS, _META = "pieces.npy", "offsets.npy", "meta.json"


class WordPieces:
    """The word-piece ids of many sentences, one after the other in the array *pieces*.

    The *offsets* say where each sentence begins, and where the last one ends, (number of sentences + 1,).
    """

    def __init__(self, pieces: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        self.pieces = pieces
        self.offsets = offsets

    @classmethod
    def load(cls, folder: Path) -> Optional["WordPieces"]:
        """Return what `save` wrote into *folder*, which all processes of a machine have in memory once; None if there
        is nothing complete."""
        try:
            loaded = cls(*(np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_PIECES, _OFFSETS)))
            loaded.digest = json.loads((folder / _META).read_text(encoding="utf-8"))["digest"]
            return loaded
        except OSError:
            return None
        except (ValueError, KeyError, EOFError) as error:
            logger.warning(f"{folder} cannot be read ({error}): the word pieces are made anew")
            return None

    def save(self, folder: Path) -> None:
        """Write the word pieces into *folder*; several processes may write the same ones there at once."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, numbers in ((_OFFSETS, self.offsets), (_PIECES, self.pieces)):
            with written_whole(folder / name) as new:
                np.save(new, numbers)
        with written_whole(folder / _META) as new:
            new.write_text(json.dumps({"digest": self.digest}), encoding="utf-8")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        """Return the word-piece ids of sentence *index*, (L,), without a copy."""
        return self.pieces[self.offsets[index] : self.offsets[index + 1]]

    @cached_property
    def digest(self) -> str:
        """A hash of all word pieces and of where the sentences begin, as 32 hexadecimal digits."""
        hasher = hashlib.blake2b(np.ascontiguousarray(self.offsets, "<i8").data, digest_size=16)
        hasher.update(np.ascontiguousarray(self.pieces, "<i4").data)
        return hasher.hexdigest()


@dataclass
class Sentences:
    """The sentences of a data set for BERT; the arguments are those of `BertPairDataset`.

    A fast tokenizer of Hugging Face uses all processor cores for a chunk of sentences, unless RAYON_NUM_THREADS or
    TOKENIZERS_PARALLELISM says otherwise.  A slow one uses one.
    """

    dataset: fairseq_data.LanguagePairDataset
    bridge: DictionaryBridge
    texts: Optional[ConcatDataset[str]]
    document_starts: Collection[int]

    def word_pieces(self, read: Callable[[int], None] = lambda count: None) -> WordPieces:
        """Return the word pieces of all sentences; *read* counts sentences."""
        flat, sizes = array("i"), array("q", [0])
        for row in with_context(self.bridge, self._pieces(read), self.document_starts):
            flat.extend(row)
            sizes.append(len(row))
        return WordPieces(np.asarray(flat, dtype=np.int32), np.cumsum(sizes, dtype=np.int64))

    def _pieces(self, read: Callable[[int], None]) -> Iterator[List[int]]:
        """Yield the word pieces of each sentence, without special tokens."""
        for first in range(0, len(self.dataset), _CHUNK):
            chunk = range(first, min(first + _CHUNK, len(self.dataset)))
            if self.texts is not None:
                yield from self.bridge.word_pieces([self.texts[i] for i in chunk])
            else:
                yield from self.bridge.word_pieces_of_tokens([self.dataset.src[i].tolist() for i in chunk])
            read(len(chunk))

    def digest(self) -> Optional[str]:
        """Return a hash of everything that the word pieces depend on, or None if the sentences are in no files."""
        source = content_identity(self.dataset.src)
        if source is None:
            return None
        identity = [FORMAT, source, self.bridge.identity(), version("tokenizers"), sorted(self.document_starts)]
        identity.append(version("sacremoses") if self.bridge.detok == "moses" else None)
        texts: Any = self.texts
        identity.append(None if texts is None else [file.digest for file in texts.datasets])
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def kept_word_pieces(sentences: Sentences, prefix: Optional[Path]) -> WordPieces:
    """Return the word pieces of *sentences*; many of them are kept in a folder whose path begins with *prefix*."""
    if prefix is None or len(sentences.dataset) < KEPT_FROM:
        return sentences.word_pieces()
    folder = Path(f"{prefix}-{digest}") if (digest := sentences.digest()) else None
    if folder is not None and (kept := WordPieces.load(folder)):
        logger.info(f"the word pieces of {prefix.name} are kept in {folder}")
        return kept
    with Progress("word pieces for BERT", len(sentences.dataset), "sentences", say=logger.info) as shown:
        word_pieces = sentences.word_pieces(shown.update)
    if folder is None:
        problem = "nothing tells which sentences --dataset-impl has read; give --dataset-impl mmap"
    elif get_global_world_size() > 1:
        problem = "processes that train together write nothing; run bert-fused-cache build first, with their flags"
    else:
        try:
            word_pieces.save(folder)
            logger.info(f"the word pieces of {prefix.name} are kept in {folder} from now on")
            return WordPieces.load(folder) or word_pieces
        except OSError as error:
            problem = f"{folder} cannot be written ({error}); give a --bert-cache on a disk with room"
    logger.warning(f"the word pieces of {prefix.name} are not kept, and are made anew at each start: {problem}")
    return word_pieces


def content_identity(dataset: Any) -> Optional[List[Any]]:
    """Return what tells the sentences of *dataset*, for JSON; None: it changes files in an unknown way, or has none."""
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
