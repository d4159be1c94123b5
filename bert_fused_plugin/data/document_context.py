"""BERT's input with the sentences before the current one."""

import os
from collections import deque
from typing import Container, Deque, List, Optional, Set

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError


class DocumentContext:
    """Frames the sentences of a text, one after the other, each with those of its document before it.

    A document ends where a blank line stands, and where *starts* says that another one begins.

    Args:
        bridge: knows how many sentences are read, and how they are framed.
        starts: indices of the sentences that begin a document.
    """

    def __init__(self, bridge: DictionaryBridge, starts: Container[int] = ()) -> None:
        self._bridge = bridge
        self._starts = starts
        self._before: Deque[List[int]] = deque(maxlen=bridge.context)
        self._index = 0

    def frame(self, pieces: List[int]) -> List[int]:
        """Return BERT's input for the next sentence, of the word-piece ids *pieces*."""
        if self._index in self._starts or not pieces:
            self._before.clear()
        row = self._bridge.frame(pieces, [piece for sentence in self._before for piece in sentence])
        if pieces:
            self._before.append(pieces)
        self._index += 1
        return row


def read_document_starts(directory: Optional[str], split: str, size: int) -> Set[int]:
    """Return where the documents of *split* begin: the numbers, from 0, in ``directory/{split}.docs``.

    Raises:
        BertFusedError: the file does not hold one rising line number for each document.
    """
    if directory is None:
        return set()
    path = os.path.join(directory, f"{split}.docs")
    rule = f"it must hold the line number, from 0 to {size - 1}, of the first sentence of each document, one a line"
    try:
        with open(path, encoding="utf-8") as lines:
            starts = [int(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise BertFusedError(f"--bert-documents {directory}: {path} cannot be read ({error}); {rule}") from error
    wrong = [start for start in starts if not 0 <= start < size]
    if wrong or not starts or starts != sorted(set(starts)):
        what = "its numbers do not rise" if starts else "it is empty"
        what = f"{wrong[0]} is out of range" if wrong else what
        raise BertFusedError(f"--bert-documents {directory}: {path}: {what}; {rule}")
    return set(starts)
