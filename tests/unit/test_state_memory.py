"""The memory of BERT's states: what is asked twice is computed once, and the oldest leave first."""

import torch
from helpers import assert_close

from bert_fused_plugin.bert.state_cache import LruStateCache
from bert_fused_plugin.data.collate import collate_bert_tokens

D = 3
ROWS = [[2, 5, 3], [2, 6, 7, 8, 3], [2, 3], [2, 9, 4, 3]]


class Reader:
    """A BERT whose states are functions of token and segment, and of nothing at padding."""

    def __init__(self):
        self.seen = []

    def __call__(self, tokens, segments):
        self.seen.append([row[row >= 0].tolist() for row in tokens])
        segments = torch.zeros_like(tokens) if segments is None else segments
        return torch.stack([tokens.float(), tokens.float() ** 2, segments.float()], dim=-1) + 0.5


def batch(*numbers):
    return collate_bert_tokens([torch.tensor(ROWS[n]) for n in numbers])


def expected(tokens, segments=None):
    return Reader()(tokens, segments).masked_fill(tokens.eq(-1).unsqueeze(-1), 0)


def test_each_sentence_is_read_once_and_every_batch_gets_its_states():
    memory, read = LruStateCache(10_000), Reader()
    for numbers in ((0, 1), (1, 2, 0), (3, 3, 1), (2, 3)):
        tokens = batch(*numbers)
        assert_close(memory.read(tokens, None, read), expected(tokens))
    assert read.seen == [[ROWS[0], ROWS[1]], [ROWS[2]], [ROWS[3]]]
    assert len(memory) == 4


def test_wider_padding_is_kept_and_segments_follow_their_rows():
    memory, read = LruStateCache(10_000), Reader()
    memory.read(batch(0), None, read)
    wide = torch.nn.functional.pad(batch(0, 3), (0, 3), value=-1)
    segments = torch.tensor([[0] * 7, [0, 1, 1, 1, 0, 0, 0]])
    assert_close(memory.read(wide, segments, read), expected(wide, segments))


def test_the_least_recently_used_leaves_first():
    memory, read = LruStateCache(4 * D * (3 + 5)), Reader()
    memory.read(batch(0), None, read)
    memory.read(batch(1), None, read)
    memory.read(batch(0), None, read)
    memory.read(batch(2), None, read)  # no room for all three: the five of row 1 leave
    memory.read(batch(0, 2), None, read)
    assert len(read.seen) == 3
    memory.read(batch(1), None, read)
    assert len(read.seen) == 4


def test_what_is_larger_than_the_memory_is_read_all_the_same():
    memory, read = LruStateCache(1), Reader()
    tokens = batch(0, 1, 2)
    for _ in range(2):
        assert_close(memory.read(tokens, None, read), expected(tokens))
    assert len(memory) == 0


def test_after_clear_all_is_read_anew():
    memory, read = LruStateCache(10_000), Reader()
    memory.read(batch(0), None, read)
    memory.clear()
    memory.read(batch(0), None, read)
    assert len(read.seen) == 2
