import pytest
import torch

from bert_fused_plugin.modules.drop_net import DropNet

NMT, BERT, BOTH = (True, False), (False, True), (False, False)


def draws(p_net, n=4000, per_sentence=False):
    """n draws: of a layer for each of n batches, or of one layer for a batch of n sentences."""
    drop_net = DropNet(p_net, per_sentence).train()
    if per_sentence:
        return list(zip(*(alone.tolist() for alone in drop_net(n))))
    return [tuple(alone.item() for alone in drop_net(3)) for _ in range(n)]


def test_rate_zero_always_takes_both():
    assert set(draws(0.0)) == {BOTH}


@pytest.mark.parametrize("per_sentence", [False, True])
def test_rate_one_never_takes_both(per_sentence):
    assert set(draws(1.0, per_sentence=per_sentence)) == {NMT, BERT}


@pytest.mark.parametrize("per_sentence", [False, True])
@pytest.mark.parametrize("p_net", [0.2, 0.5, 1.0])
def test_each_branch_is_alone_in_half_of_the_rate(p_net, per_sentence):
    n = 4000
    seen = draws(p_net, n, per_sentence)
    spread = 5 * (n * p_net / 2 * (1 - p_net / 2)) ** 0.5
    for branch in (NMT, BERT):
        assert abs(seen.count(branch) - n * p_net / 2) < spread


def test_a_layer_draws_once_for_the_batch_or_once_for_each_sentence():
    assert [alone.shape for alone in DropNet(0.5).train()(7)] == [(1,), (1,)]
    assert [alone.shape for alone in DropNet(0.5, per_sentence=True).train()(7)] == [(7,), (7,)]


def test_evaluation_always_takes_both():
    for drop_net in (DropNet(1.0).eval(), DropNet(1.0, per_sentence=True).eval()):
        assert not any(alone.any() for _ in range(50) for alone in drop_net(5))


def test_draws_follow_torchs_seed():
    torch.manual_seed(7)
    first = draws(0.5, 40)
    torch.manual_seed(7)
    assert draws(0.5, 40) == first
    torch.manual_seed(8)
    assert draws(0.5, 40) != first
