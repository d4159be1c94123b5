import pytest
import torch

from bert_fused_plugin.modules.drop_net import DropNet

NMT, BERT, BOTH = (True, False), (False, True), (False, False)


def draws(p_net, n=4000):
    drop_net = DropNet(p_net).train()
    return [drop_net() for _ in range(n)]


def test_rate_zero_always_takes_both():
    assert set(draws(0.0)) == {BOTH}


def test_rate_one_never_takes_both():
    assert set(draws(1.0)) == {NMT, BERT}


@pytest.mark.parametrize("p_net", [0.2, 0.5, 1.0])
def test_each_branch_is_alone_in_half_of_the_rate(p_net):
    n = 4000
    seen = draws(p_net, n)
    spread = 5 * (n * p_net / 2 * (1 - p_net / 2)) ** 0.5
    for branch in (NMT, BERT):
        assert abs(seen.count(branch) - n * p_net / 2) < spread


def test_evaluation_always_takes_both():
    drop_net = DropNet(1.0).eval()
    assert {drop_net() for _ in range(50)} == {BOTH}


def test_draws_follow_torchs_seed():
    torch.manual_seed(7)
    first = draws(0.5, 40)
    torch.manual_seed(7)
    assert draws(0.5, 40) == first
    torch.manual_seed(8)
    assert draws(0.5, 40) != first
