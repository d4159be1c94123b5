"""A corpus of any number of sentences, which benchmark scale.py makes of a given one without holding it in memory."""

import struct
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary, data_utils
from numpy.typing import NDArray

_MAGIC = b"MMIDIDX\x00\x00"  # of fairseq's format "mmap"
_INT32 = 4  # its code of the number format
_CHANGED = 0.1  # share of the symbols that another symbol of the text replaces


def make_corpus(text: str, lang: str, pairs: int, folder: Path) -> str:
    """Write *pairs* sentences in the format of fairseq-preprocess; return the beginning of the names of their files.

    The sentences are those of *text* again and again, each time with other symbols changed, so that nearly all of
    them differ.

    Args:
        text: a data-bin, up to the ending of its files: ``DATA/train.en-de.en``.
        lang: source language of the data-bin.
        pairs: number of sentences.
        folder: folder for the files, with the dictionary beside them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dictionary = Dictionary.load(str(Path(text).parent / f"dict.{lang}.txt"))
    dictionary.save(str(folder / f"dict.{lang}.txt"))
    prefix = folder / "train"
    dataset = data_utils.load_indexed_dataset(text, dictionary)
    sizes = np.array(dataset.sizes, dtype=np.int32)
    flat = np.concatenate([dataset[i].numpy() for i in range(len(dataset))]).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    random = np.random.default_rng(0)
    with open(f"{prefix}.bin", "wb") as target:
        for first in range(0, pairs, len(sizes)):
            changed = _changed(flat, dictionary.nspecial, random) if first else flat
            target.write(changed[: starts[min(len(sizes), pairs - first)]].data)
    with open(f"{prefix}.idx", "wb") as target:
        target.write(_MAGIC + struct.pack("<QBQ", 1, _INT32, pairs))
        for first in range(0, pairs, len(sizes)):
            target.write(sizes[: pairs - first].data)
        for first in range(0, pairs, len(sizes)):
            begin = first // len(sizes) * int(starts[-1])
            target.write((4 * (starts[:-1][: pairs - first] + begin)).data)
    return str(prefix)


def _changed(flat: NDArray[np.int32], special: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Return the symbols *flat*, some of them replaced by others of the same text; the first *special* ones stay."""
    places = random.random(len(flat), dtype=np.float32) < _CHANGED
    others = flat[random.integers(len(flat), size=int(places.sum()))]
    result = flat.copy()
    result[places] = np.where((flat[places] < special) | (others < special), flat[places], others)
    return result
