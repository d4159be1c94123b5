"""Sentences of a batch in groups by length."""

import pytest

from bert_fused_plugin.bert.pretrained_bert import groups_by_length

LENGTHS = [5, 2, 9, 2, 5, 5, 9]


@pytest.mark.parametrize(
    ("fewest", "expected"),
    [
        (1, [[1, 3], [0, 4, 5], [2, 6]]),
        (4, [[1, 3], [0, 4, 5], [2, 6]]),
        (5, [[1, 3, 0, 4, 5], [2, 6]]),
        (25, [[1, 3, 0, 4, 5], [2, 6]]),
        (26, [[1, 3, 0, 4, 5, 2, 6]]),
    ],
)
def test_a_group_ends_where_the_length_rises_and_it_is_large_enough(fewest, expected):
    assert list(groups_by_length(LENGTHS, fewest)) == expected


def test_no_sentences_make_no_group():
    assert list(groups_by_length([], 1)) == []
