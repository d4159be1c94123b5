"""The mixture of BERT's layers."""

import torch
from helpers import assert_close

from bert_fused_plugin.bert.layer_choice import RandomLayer, ScalarMix

B, L, N, D = 2, 5, 3, 4


def test_scalar_mix_is_elmos_equation():
    mix, states = ScalarMix(N), torch.randn(B, L, N, D)
    assert_close(mix(states), states.mean(dim=2))  # as it begins
    with torch.no_grad():
        mix.w.copy_(torch.tensor([0.3, -1.0, 2.0]))
        mix.gamma.fill_(1.7)
    exps = [torch.exp(w) for w in mix.w]
    expected = 1.7 * sum(e / sum(exps) * states[:, :, j] for j, e in enumerate(exps))
    assert_close(mix(states), expected)


def test_a_random_layer_is_one_of_them_in_training_and_their_mean_in_evaluation():
    mix, states = RandomLayer().train(), torch.randn(B, L, N, D)
    seen = []
    for _ in range(60):
        out = mix(states)
        seen.append([torch.equal(out, states[:, :, j]) for j in range(N)])
    assert all(sum(hits) == 1 for hits in seen)
    assert all(any(hits[j] for hits in seen) for j in range(N))
    assert_close(mix.eval()(states), states.mean(dim=2))
    torch.manual_seed(3)
    first = mix.train()(states)
    torch.manual_seed(3)
    assert torch.equal(mix(states), first)
