"""The cache of BERT's states: each sentence is computed once, and the least recently used leave first."""

import torch
from helpers import assert_close

from bert_fused_plugin.bert.frozen_bert import LruStateCache
from bert_fused_plugin.data.collate import BERT_PAD, collate_bert_tokens

D = 3
ROWS = [[2, 5, 3], [2, 6, 7, 8, 3], [2, 3], [2, 9, 4, 3]]


class Reader:
    """A BERT whose states are functions of token and segment, and of nothing at padding."""

    def __init__(self):
        self.seen = []

    def __call__(self, tokens, segments):
        self.seen.append([row[row != BERT_PAD].tolist() for row in tokens])
        segments = torch.zeros_like(tokens) if segments is None else segments
        return torch.stack([tokens.float(), tokens.float() ** 2, segments.float()], dim=-1) + 0.5


def batch(*numbers):
    return collate_bert_tokens([torch.tensor(ROWS[n]) for n in numbers])


def expected(tokens, segments=None):
    return Reader()(tokens, segments).masked_fill(tokens.eq(BERT_PAD).unsqueeze(-1), 0)


def test_each_sentence_is_read_once_and_every_batch_gets_its_states():
    cache, computed = LruStateCache(10_000), Reader()
    for numbers in ((0, 1), (1, 2, 0), (3, 3, 1), (2, 3)):
        tokens = batch(*numbers)
        assert_close(cache.read(tokens, None, computed), expected(tokens))
    assert computed.seen == [[ROWS[0], ROWS[1]], [ROWS[2]], [ROWS[3]]]
    assert len(cache.states) == 4


def test_wider_padding_is_kept_and_segments_follow_their_rows():
    cache, computed = LruStateCache(10_000), Reader()
    cache.read(batch(0), None, computed)
    wide = torch.nn.functional.pad(batch(0, 3), (0, 3), value=-1)
    segments = torch.tensor([[0] * 7, [0, 1, 1, 1, 0, 0, 0]])
    assert_close(cache.read(wide, segments, computed), expected(wide, segments))


def test_the_least_recently_used_leaves_first():
    cache, computed = LruStateCache(4 * D * (3 + 5)), Reader()
    cache.read(batch(0), None, computed)
    cache.read(batch(1), None, computed)
    cache.read(batch(0), None, computed)
    cache.read(batch(2), None, computed)  # no room for all three: the five of row 1 leave
    cache.read(batch(0, 2), None, computed)
    assert len(computed.seen) == 3
    cache.read(batch(1), None, computed)
    assert len(computed.seen) == 4


def test_what_is_larger_than_the_cache_is_read_all_the_same():
    cache, computed = LruStateCache(1), Reader()
    tokens = batch(0, 1, 2)
    for _ in range(2):
        assert_close(cache.read(tokens, None, computed), expected(tokens))
    assert len(cache.states) == 0
