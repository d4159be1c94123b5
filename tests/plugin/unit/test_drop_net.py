"""Drop-net's draws, and the random numbers of a batch that they come from."""

import pytest
import torch

from bert_fused_plugin.modules import drop_net
from bert_fused_plugin.modules.drop_net import DropNet, batch_rng

NMT, BERT, BOTH = (True, False), (False, True), (False, False)


def draws(p_net, n=4000):
    drawn = DropNet(p_net).train()
    return [drawn() for _ in range(n)]


@pytest.mark.parametrize(
    ("p_net", "cases"), [(0.0, {BOTH}), (0.2, {NMT, BERT, BOTH}), (0.5, {NMT, BERT, BOTH}), (1.0, {NMT, BERT})]
)
def test_each_branch_is_alone_in_half_of_the_rate(p_net, cases):
    n = 4000
    seen = draws(p_net, n)
    assert set(seen) == cases
    spread = 5 * (n * p_net / 2 * (1 - p_net / 2)) ** 0.5
    for branch in (NMT, BERT):
        assert abs(seen.count(branch) - n * p_net / 2) <= spread


def test_each_rank_draws_what_one_process_draws_for_the_same_batch(monkeypatch):
    """Some numbers, other ones in each batch of an update."""

    def update(rank, world_size, batches):
        monkeypatch.setattr(drop_net, "get_global_rank", lambda: rank)
        monkeypatch.setattr(drop_net, "get_global_world_size", lambda: world_size)
        torch.manual_seed(11)  # fairseq does, before each update
        drawn = []
        for n in range(batches):
            with batch_rng(training=True):
                drawn.append(torch.rand(3 + (rank + n) % 2)[:3].tolist())
        return drawn

    alone = update(0, 1, 6)
    ranks = [update(rank, 3, 2) for rank in range(3)]
    assert [ranks[i % 3][i // 3] for i in range(6)] == alone
    assert len({tuple(drawn) for drawn in alone}) == 6


def test_what_a_batch_draws_does_not_move_the_generator():
    after = []
    for size in (1, 7):
        torch.manual_seed(11)
        with batch_rng(training=True):
            torch.rand(size)
        after.append(torch.rand(()))
    assert after[0] == after[1]


def test_nothing_is_drawn_in_evaluation():
    torch.manual_seed(11)
    with batch_rng(training=False):
        inside = torch.rand(())
    torch.manual_seed(11)
    assert inside == torch.rand(())
