"""The embeddings of a model, which may come from a file of word vectors."""

import logging
import os
from typing import Any, Dict, List, Optional

import torch
from torch import nn

from bert_fused_plugin.errors import BertFusedError

logger = logging.getLogger(__name__)


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
        BertFusedError: the file cannot be read, or its vectors have another width, or it has none of the symbols.
    """
    if path is None:
        return
    try:
        vectors = _read_vectors(os.path.expanduser(path), dictionary)  # the shell leaves the ~ of --FLAG=~/FILE
    except (OSError, ValueError) as error:
        raise BertFusedError(
            f"{flag} {path} cannot be read ({error}); give a text file in which each line has a word and its numbers"
        ) from error
    if not vectors:
        raise BertFusedError(
            f"{flag} {path} must have vectors of symbols of the dictionary, got none of the {len(dictionary)}; give "
            "the vectors of words that are split as the training data is"
        )
    widths = {len(vector) for vector in vectors.values()} - {embedding.embedding_dim}
    if widths:
        raise BertFusedError(
            f"{flag} {path} must hold a vector of {embedding.embedding_dim} numbers for each word, got "
            f"{sorted(widths)[0]} numbers; give another file, or set --encoder-embed-dim or --decoder-embed-dim to the "
            "width of its vectors"
        )
    with torch.no_grad():
        for symbol, vector in vectors.items():
            embedding.weight[dictionary.index(symbol)] = torch.tensor(vector)
    logger.info(f"{flag} {path}: {len(vectors):,} of the {len(dictionary):,} symbols have a vector there")


def _read_vectors(path: str, dictionary: Any) -> Dict[str, List[float]]:
    """Return the vectors of the symbols of *dictionary*; the first line may say how many there are, and how wide."""
    vectors = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file):
            word, *numbers = line.rstrip().split(" ")
            if word in dictionary and not (number == 0 and len(numbers) == 1):
                vectors[word] = [float(value) for value in numbers]
    return vectors
