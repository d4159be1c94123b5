"""Makes BERT's input for the sentences of a data set, from any sentence on."""

import hashlib
import json
from array import array
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Collection, Dict, List, Optional, Sequence, Union

import numpy as np
from fairseq.data import (
    AppendTokenDataset,
    ConcatDataset,
    IndexedCachedDataset,
    IndexedDataset,
    LanguagePairDataset,
    MMapIndexedDataset,
    PrependTokenDataset,
    StripTokenDataset,
    TruncateDataset,
)
from fairseq.data.indexed_dataset import data_file_path, index_file_path

from bert_fused_plugin.data.data_bin import read_whole
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.document_context import DocumentContext
from bert_fused_plugin.data.raw_text import RawText
from bert_fused_plugin.data.word_pieces import WordPieces

FORMAT = 1  # a change of what is made of a sentence, or of the files, needs another number

_CHUNK = 10_000  # sentences tokenised at once


class Sentences:
    """The sentences of a data set for BERT.

    The Hugging Face tokenizer uses all processor cores for a chunk of sentences, unless RAYON_NUM_THREADS or
    TOKENIZERS_PARALLELISM says otherwise.  Several processes on the same cores share these cores.

    For the arguments see `BertPairDataset`.
    """

    def __init__(
        self,
        dataset: LanguagePairDataset,
        bridge: DictionaryBridge,
        texts: Union[RawText, Sequence[str], None] = None,
        document_starts: Collection[int] = (),
    ) -> None:
        self._dataset = dataset
        self._bridge = bridge
        self._texts = texts
        self._document_starts = document_starts

    def __len__(self) -> int:
        return len(self._dataset)

    def word_pieces(self, start: int, stop: int) -> WordPieces:
        """Return the word pieces of the sentences from index *start* to before *stop*."""
        bridge = self._bridge
        before = range(max(0, start - bridge.context), start)
        context = DocumentContext(bridge, self._document_starts, before.start)
        for pieces in self._pieces(before):
            context.frame(pieces)
        truncated, context_cut = bridge.num_truncated, bridge.num_context_cut
        flat, sizes = array("i"), array("q", [0])
        for first in range(start, stop, _CHUNK):
            rows = [context.frame(pieces) for pieces in self._pieces(range(first, min(first + _CHUNK, stop)))]
            flat.extend(chain.from_iterable(rows))
            sizes.extend(map(len, rows))
        return WordPieces(
            np.array(flat, dtype=np.int32),
            np.cumsum(sizes, dtype=np.int64),
            bridge.num_truncated - truncated,
            bridge.num_context_cut - context_cut,
        )

    def digest(self) -> Optional[str]:
        """Return a hash of everything that the word pieces depend on, or None if the sentences are in no files."""
        source, bridge, texts = content_identity(self._dataset.src), self._bridge, self._texts
        if source is None or not (texts is None or isinstance(texts, RawText)):
            return None
        identity = [FORMAT, source, bridge.identity(), version("tokenizers"), sorted(self._document_starts)]
        identity.append(version("sacremoses") if bridge.detok == "moses" else None)
        identity.append(texts and texts.digests)
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    def expected_pieces(self) -> int:
        """Return about how many word pieces there will be: as many as the source has symbols."""
        return int(np.sum(self._dataset.src_sizes))

    def _pieces(self, indices: range) -> List[List[int]]:
        """Return the word pieces of the sentences with these *indices*, without special tokens."""
        if self._texts is not None:
            return self._bridge.word_pieces([self._texts[i] for i in indices])
        return self._bridge.word_pieces_of_tokens([self._source[i].tolist() for i in indices])

    @cached_property
    def _source(self) -> Any:
        source = self._dataset.src
        return source if isinstance(source, list) else read_whole(source)  # a list in fairseq-interactive


def content_identity(dataset: Any) -> Optional[List[Any]]:
    """Return what tells the sentences of *dataset*, a data set of fairseq, as a list that JSON can hold.

    The files are hashed from end to end.  A file of other sentences may have the same size and the same time, and
    a million sentences of 14 words have about 40 MB, for which this takes less than 0.1 seconds.

    Returns:
        None if *dataset* does not read the files of fairseq-preprocess, or changes them in an unknown way.
    """
    identity = _KINDS.get(type(dataset), lambda unknown: [None])(dataset)
    return None if None in identity else [type(dataset).__name__, *identity]


def _files(prefix: str) -> List[Any]:
    paths = map(Path, (index_file_path(prefix), data_file_path(prefix)))
    return [
        hashlib.blake2b(np.memmap(path, mode="r").data if path.stat().st_size else b"").hexdigest() for path in paths
    ]


_KINDS: Dict[type, Callable[[Any], List[Any]]] = {
    MMapIndexedDataset: lambda d: _files(d._path),
    IndexedDataset: lambda d: [d.fix_lua_indexing, *_files(d.path)],
    IndexedCachedDataset: lambda d: [d.fix_lua_indexing, *_files(d.path)],
    ConcatDataset: lambda d: [*d.sample_ratios, *map(content_identity, d.datasets)],
    AppendTokenDataset: lambda d: [str(d.token), content_identity(d.dataset)],
    PrependTokenDataset: lambda d: [str(d.token), content_identity(d.dataset)],
    StripTokenDataset: lambda d: [str(d.id_to_strip), content_identity(d.dataset)],
    TruncateDataset: lambda d: [d.truncation_length, content_identity(d.dataset)],
}
