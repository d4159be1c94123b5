"""The embeddings of a recurrent model, which may come from a file of word vectors."""

from typing import Any, Optional

from fairseq import utils
from torch import nn

from bert_fused_plugin.errors import BertFusedError


def build_embedding(dictionary: Any, embed_dim: int) -> nn.Embedding:
    """Return new embeddings for the symbols of *dictionary*."""
    return nn.Embedding(len(dictionary), embed_dim, dictionary.pad())


def load_embedding(flag: str, path: Optional[str], dictionary: Any, embedding: nn.Embedding) -> None:
    """Copy the vectors of a file to *embedding*, for the symbols of *dictionary* that the file has.

    Args:
        flag: the flag that gives the file, for error messages.
        path: the path of the file, in which each line has a word and its numbers; None: nothing is copied.
        dictionary: the dictionary of *embedding*.
        embedding: the embeddings that are changed.

    Raises:
        BertFusedError: the file cannot be read, or its vectors have another width.
    """
    if path is None:
        return
    try:
        vectors = utils.parse_embedding(path)
    except (OSError, ValueError) as error:
        raise BertFusedError(
            f"{flag} {path} cannot be read ({error}); give a text file in which each line has a word and its numbers"
        ) from error
    widths = {len(vector) for vector in vectors.values()} - {embedding.embedding_dim}
    if widths or not vectors:
        raise BertFusedError(
            f"{flag} {path} must hold a vector of {embedding.embedding_dim} numbers for each word, got "
            f"{sorted(widths)[0] if widths else 'no'} numbers; give another file, or set --encoder-embed-dim or "
            "--decoder-embed-dim to the width of its vectors"
        )
    utils.load_embedding(vectors, dictionary, embedding)
