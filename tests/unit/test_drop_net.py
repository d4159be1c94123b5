import pytest
import torch

from bert_fused_plugin.modules.drop_net import DropNet


def draws(p_net, n=4000):
    drop_net = DropNet(p_net).train()
    return [drop_net() for _ in range(n)]


def test_rate_zero_always_takes_the_mean():
    assert set(draws(0.0)) == {(0.5, 0.5)}


def test_rate_one_never_takes_the_mean():
    assert set(draws(1.0)) == {(1.0, 0.0), (0.0, 1.0)}


@pytest.mark.parametrize("p_net", [0.2, 0.5, 1.0])
def test_each_branch_is_alone_in_half_of_the_rate(p_net):
    n = 4000
    seen = draws(p_net, n)
    spread = 5 * (n * p_net / 2 * (1 - p_net / 2)) ** 0.5
    for weights in ((1.0, 0.0), (0.0, 1.0)):
        assert abs(seen.count(weights) - n * p_net / 2) < spread


def test_evaluation_always_takes_the_mean():
    drop_net = DropNet(1.0).eval()
    assert {drop_net() for _ in range(50)} == {(0.5, 0.5)}


def test_draws_follow_torchs_seed():
    torch.manual_seed(7)
    first = draws(0.5, 40)
    torch.manual_seed(7)
    assert draws(0.5, 40) == first
    torch.manual_seed(8)
    assert draws(0.5, 40) != first
