"""The words of sources, and how often the training data has each."""

import itertools
from collections import Counter
from typing import Any, List, Optional, Sequence, Tuple

from fairseq.utils import split_paths

from bert_fused_lab.evidence.words import word_positions
from bert_fused_plugin.data.data_bin import source_side
from bert_fused_plugin.progress import Progress

Word = Tuple[int, ...]  # the ids of its subwords


def words_of(dictionary: Any, tokens: Sequence[int], subwords: str) -> List[Word]:
    """Return the words of a source sentence, each as the ids of its subwords, without the end of sentence."""
    kept = [token for token in tokens if token not in (dictionary.pad(), dictionary.eos())]
    words = word_positions([dictionary[token] for token in kept], subwords, {dictionary[dictionary.unk()]})
    return [tuple(kept[i] for i in word) for word in words]


def count_training_words(
    task: Any, data: str, subwords: str, wanted: Sequence[Sequence[Word]]
) -> "Optional[Counter[Word]]":
    """Return how often each of the *wanted* words is in the training source; None if *data* has no training set.

    The dictionary counts subwords, and a word that was never seen may consist of frequent subwords.  Words that the
    dictionary does not know are not counted: they all have one symbol, which says nothing about any of them.
    """
    datasets: List[Any] = []
    for path in split_paths(data):
        names = (f"train{number or ''}" for number in itertools.count())  # as fairseq combines them
        found = (source_side(path, name, task) for name in names)
        datasets += itertools.takewhile(lambda dataset: dataset is not None, found)
    if not datasets:
        return None
    unk = task.source_dictionary.unk()
    known = {word for words in wanted for word in words if unk not in word}
    seen: Counter[Word] = Counter()
    sentences = (dataset[i].tolist() for dataset in datasets for i in range(len(dataset)))
    total = sum(map(len, datasets))
    with Progress("words of the training data", total, "sentences") as progress:
        for sentence in sentences:
            seen.update(word for word in words_of(task.source_dictionary, sentence, subwords) if word in known)
            progress.update(1)
    return seen
