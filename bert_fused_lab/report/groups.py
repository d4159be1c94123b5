"""Groups of test sentences: by source length, and by the number of source words that are rare in training."""

import itertools
from bisect import bisect_left
from collections import Counter
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq.utils import split_paths

from bert_fused_lab.evidence.words import word_positions
from bert_fused_plugin.data.data_bin import source_side
from bert_fused_plugin.progress import Progress

RARE = 5  # a word is rare if it is seen at most this often in training
_LENGTHS = (10, 15, 20, 25, 30)
_LENGTH_NAMES = [*(f"{start + 1}-{end}" for start, end in zip((0, *_LENGTHS), _LENGTHS)), f"over {_LENGTHS[-1]}"]
_RARE_NAMES = ["none", "1", "2", "3 or more"]
Word = Tuple[int, ...]  # the ids of its subwords
Groups = Dict[str, List[int]]  # the numbers of the sentences of each group, by its name


def by_length(sentences: Sequence[Sequence[Word]]) -> Groups:
    """Return groups of *sentences* by their length in words."""
    return _group([bisect_left(_LENGTHS, len(sentence)) for sentence in sentences], _LENGTH_NAMES)


def by_rare_words(sentences: Sequence[Sequence[Word]], seen: "Counter[Word]") -> Groups:
    """Return groups of *sentences* by the number of their words that were *seen* at most `RARE` times in training."""
    counts = [sum(seen[word] <= RARE for word in sentence) for sentence in sentences]
    return _group([min(count, 3) for count in counts], _RARE_NAMES)


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


def _group(places: Sequence[int], names: Sequence[str]) -> Groups:
    groups = {name: [i for i, own in enumerate(places) if own == place] for place, name in enumerate(names)}
    return {name: found for name, found in groups.items() if found}
