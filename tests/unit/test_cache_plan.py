"""Which sentences have states, compared with a plain loop over dictionaries of sentences."""

import numpy as np
import pytest
import torch

from bert_fused_plugin.data import cache_plan
from bert_fused_plugin.data.word_pieces import WordPieces

BYTES = 6  # of the states of a word piece


def plain_choice(rows, limit):
    """Return the sentences that have states, in the order in which they are computed."""
    unique = {tuple(row): row for row in rows}
    room = float("inf") if limit is None else limit // BYTES
    chosen = []
    for row in sorted(unique.values(), key=len, reverse=True):
        room -= len(row)
        if room < 0:
            break
        chosen.append(row)
    return chosen


@pytest.fixture(params=range(5))
def rows(request):
    """Sentences of 0 to 6 pieces of which many are the same."""
    rng = np.random.default_rng(request.param)
    return [rng.integers(1, 4, size=rng.integers(0, 7)).tolist() for _ in range(120)]


@pytest.mark.parametrize("limit", [None, 0, 1, 59, 60, 600, 1100, 10**9])
def test_the_choice_is_that_of_a_plain_loop(rows, limit):
    sentences = WordPieces.of(rows)
    expected = plain_choice(rows, limit)
    chosen = cache_plan.within_limit(sentences, limit, BYTES)
    assert [sentences[i].tolist() for i in chosen] == expected
    assert [rows.index(row) for row in expected] == chosen.tolist()
    assert cache_plan.same_as(sentences, chosen).tolist() == [row in expected for row in rows]


def test_sentences_whose_keys_begin_alike_are_told_apart():
    sentences = WordPieces.of([[1], [2], [1], [3], [2]])
    keys = np.zeros((5, 16), dtype=np.uint8)
    keys[:, 15] = [1, 2, 1, 3, 2]
    sentences.__dict__["keys"] = keys
    assert cache_plan.distinct(sentences).tolist() == [0, 1, 3]
    assert cache_plan.same_as(sentences, np.array([1, 3])).tolist() == [False, True, False, True, True]


def test_no_sentences(rows):
    nothing = WordPieces.of([])
    assert cache_plan.within_limit(nothing, None, BYTES).tolist() == []
    assert cache_plan.in_parts(nothing, np.zeros(0, np.int64), 3) == {}
    assert cache_plan.same_as(WordPieces.of(rows), np.zeros(0, np.int64)).sum() == 0


def test_a_sentence_belongs_to_the_part_that_earlier_versions_gave_it(rows):
    sentences = WordPieces.of(rows)
    chosen = cache_plan.within_limit(sentences, None, BYTES)
    expected = {}
    for i in chosen.tolist():
        expected.setdefault(int.from_bytes(bytes(sentences.keys[i][:8]), "little") % 7, []).append(i)
    assert {part: some.tolist() for part, some in cache_plan.in_parts(sentences, chosen, 7).items()} == expected


@pytest.mark.parametrize(
    ("mebibytes", "jobs", "number"),
    [
        *[(0, 1, 1), (1, 1, 1), (128, 1, 2), (1000, 1, 8), (256 * 128, 1, 257)],
        *[(256 * 512, 1, 257), (256 * 1024, 1, 257), (1000 * 1024, 1, 1001)],
        *[(0, 5, 5), (1000, 3, 9)],
    ],
)
def test_segments_grow_with_the_corpus_from_128_mib_to_1_gib(mebibytes, jobs, number):
    assert cache_plan.number_of_parts(mebibytes * 2**20, jobs) == number


def test_lengths_are_those_of_the_sentences(rows):
    sentences = WordPieces.of([torch.tensor(row) for row in rows])
    assert cache_plan.lengths(sentences, np.array([3, 1])).tolist() == [len(rows[3]), len(rows[1])]
