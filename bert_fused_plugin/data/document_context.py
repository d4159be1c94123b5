"""BERT's input with the sentences before the current one."""

import os
from collections import deque
from typing import Any, Container, Deque, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from fairseq.data import BaseWrapperDataset, ConcatDataset

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError


def with_context(
    bridge: DictionaryBridge, sentences: Iterable[List[int]], starts: Container[int] = ()
) -> Iterator[List[int]]:
    """Yield BERT's input for each of the *sentences* of a text, word-piece ids, with preceding ones of its document.

    A document ends at a blank line, or any other sentence without word pieces, and before each sentence in *starts*.
    """
    before: Deque[List[int]] = deque(maxlen=bridge.context)
    for index, pieces in enumerate(sentences):
        if index in starts or not pieces:
            before.clear()
        yield bridge.frame(pieces, [piece for sentence in before for piece in sentence])
        if pieces:
            before.append(pieces)


def files_of(source: Any) -> List[Tuple[int, int]]:
    """Return for each file of *source*, fairseq's sentences, its size and its copies (``--upsample-primary``)."""
    while isinstance(source, BaseWrapperDataset):
        source = source.dataset
    if isinstance(source, ConcatDataset):
        return [(len(file), int(copies)) for file, copies in zip(source.datasets, source.sample_ratios)]
    return [(len(source), 1)]


def read_document_starts(directory: Optional[str], split: str, files: Sequence[Tuple[int, int]]) -> Set[int]:
    """Return the indices of the sentences that begin a document, as ``directory/{split}.docs`` lists them.

    Each of the *files*, see `files_of`, begins a document, and so does each copy of it; ``{split}1.docs`` is for the
    second file, and so on.

    Raises:
        BertFusedError: a file does not hold one line number for each document, in rising order.
    """
    starts: Set[int] = set()
    offset = 0
    for number, (size, copies) in enumerate(files):
        file_starts = set() if directory is None else _read_starts(directory, f"{split}{number or ''}", size)
        for _ in range(copies):
            starts.update(offset + start for start in file_starts)
            if offset:
                starts.add(offset)
            offset += size
    return starts


def _read_starts(directory: str, split: str, size: int) -> Set[int]:
    path = os.path.join(directory, f"{split}.docs")
    rule = f"it must list, in order, the line numbers, from 0 to {size - 1}, of the first sentence of each document"
    try:
        with open(path, encoding="utf-8-sig") as lines:
            starts = [int(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise BertFusedError(f"--bert-documents {directory}: {path} cannot be read ({error}); {rule}") from error
    if not starts or starts != sorted({start for start in starts if 0 <= start < size}):
        raise BertFusedError(f"--bert-documents {directory}: {path} has other lines; {rule}")
    return set(starts)
