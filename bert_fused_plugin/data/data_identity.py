"""A hash of the sentences that a data set of fairseq reads from files, whatever the files are called."""

import hashlib
from typing import Any, Callable, Dict, List, Optional

from fairseq.data import (
    AppendTokenDataset,
    ConcatDataset,
    IndexedCachedDataset,
    IndexedDataset,
    MMapIndexedDataset,
    PrependTokenDataset,
    StripTokenDataset,
    TruncateDataset,
)
from fairseq.data.indexed_dataset import data_file_path, index_file_path

_BLOCK = 2**22  # bytes that are hashed together


def content_identity(dataset: Any) -> Optional[List[Any]]:
    """Return what tells the sentences of *dataset*, a data set of fairseq, as a list that JSON can hold.

    The files are hashed from end to end.  A file of other sentences may have the same size and the same time, and
    a million sentences of 14 words have about 40 MB, for which this takes less than 0.1 seconds.

    Returns:
        None if *dataset* does not read the files of fairseq-preprocess, or changes them in an unknown way.
    """
    kind = _KINDS.get(type(dataset))
    if kind is None:
        return None
    identity = kind(dataset)
    return None if None in identity else [type(dataset).__name__, *identity]


def _files(prefix: str) -> List[Any]:
    return [_hash_of_file(index_file_path(prefix)), _hash_of_file(data_file_path(prefix))]


def _hash_of_file(path: str) -> str:
    digest = hashlib.blake2b(digest_size=32)
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


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
