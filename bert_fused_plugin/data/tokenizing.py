"""Makes BERT's input for the sentences of a data set, from any sentence on."""

import hashlib
import json
import sys
from array import array
from importlib.metadata import version
from itertools import chain
from typing import Any, Callable, Container, List, Optional, Sequence, Union

import numpy as np
from fairseq.data import LanguagePairDataset

from bert_fused_plugin.data.data_bin import read_whole
from bert_fused_plugin.data.data_identity import content_identity
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

    Args:
        dataset: fairseq's data set.
        bridge: the bridge that derives the word pieces.
        texts: raw source texts, one for each sentence; default: derived from fairseq's ids.
        document_starts: indices of the sentences that begin a document, for a bridge with context.
    """

    def __init__(
        self,
        dataset: LanguagePairDataset,
        bridge: DictionaryBridge,
        texts: Union[RawText, Sequence[str], None] = None,
        document_starts: Container[int] = (),
    ) -> None:
        self._dataset = dataset
        self._bridge = bridge
        self._texts = texts
        self._document_starts = document_starts
        self._is_read = isinstance(dataset.src, list) or texts is not None  # a list in fairseq-interactive

    def __len__(self) -> int:
        return len(self._dataset)

    def word_pieces(self, start: int, stop: int, advance: Callable[[int], None]) -> WordPieces:
        """Return the word pieces of the sentences from *start* to *stop*.

        Args:
            start: index of the first sentence.
            stop: index after the last sentence.
            advance: a function that is told the number of sentences that are done, from time to time.
        """
        bridge = self._bridge
        truncated, context_cut = bridge.num_truncated, bridge.num_context_cut
        before = range(max(0, start - bridge.context), start)
        context = DocumentContext(bridge, self._document_starts, before.start)
        for pieces in self._pieces(before):
            context.skip(pieces)
        flat, sizes = array("i"), array("q", [0])
        for first in range(start, stop, _CHUNK):
            rows = [context.frame(pieces) for pieces in self._pieces(range(first, min(first + _CHUNK, stop)))]
            flat.extend(chain.from_iterable(rows))
            sizes.extend(map(len, rows))
            advance(len(rows))
        return WordPieces(
            np.array(flat, dtype=np.int32),
            np.cumsum(sizes, dtype=np.int64),
            bridge.num_truncated - truncated,
            bridge.num_context_cut - context_cut,
        )

    def digest(self) -> Optional[str]:
        """Return a hash of everything that the word pieces depend on, or None if the sentences are in no files."""
        source, bridge = content_identity(self._dataset.src), self._bridge
        starts = self._document_starts
        if source is None or not isinstance(starts, (set, tuple)) or isinstance(self._texts, (list, tuple)):
            return None
        identity: List[Any] = [FORMAT, sys.byteorder, source, bridge.identity(), version("tokenizers")]
        identity.append(version("sacremoses") if bridge.detok == "moses" else None)
        identity.append(self._texts.digests() if isinstance(self._texts, RawText) else None)
        identity.append(sorted(starts))
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    def expected_pieces(self) -> int:
        """Return about how many word pieces there will be: as many as the source has symbols."""
        return int(np.sum(self._dataset.src_sizes))

    def _pieces(self, indices: range) -> List[List[int]]:
        """Return the word pieces of the sentences with these *indices*, without special tokens."""
        if self._texts is not None:
            return self._bridge.word_pieces([self._texts[i] for i in indices])
        if not self._is_read:
            read_whole(self._dataset.src)
            self._is_read = True
        return self._bridge.word_pieces_of_tokens([self._dataset.src[i].tolist() for i in indices])
