from functools import partial
from types import SimpleNamespace

import pytest
import torch
from helpers import FORMULAS, assert_close, randomise
from torch import nn

from bert_fused_plugin.modules.fusion import FUSION_KINDS, Branch

U = {"nmt alone": 0.1, "both": 0.5, "bert alone": 0.9}
B, C = 4, 3


class TwoLinear:
    """Two linear branches that count how often they are computed."""

    def __init__(self):
        torch.manual_seed(3)
        self.nmt, self.bert = nn.Linear(5, C), nn.Linear(5, C)
        self.x = torch.randn(2, B, 5, requires_grad=True)
        self.calls = []

    def run(self, name, x):
        self.calls.append(name)
        return getattr(self, name)(x), f"weights of {name}"

    def fuse(self, fusion):
        nmt, bert = (Branch(partial(self.run, name), getattr(self, name), name) for name in ("nmt", "bert"))
        out, *weights = fusion(lambda attend, x, norm: attend(x), self.x, nmt, bert)
        assert weights == [f"weights of {name}" if name in self.calls else None for name in ("nmt", "bert")]
        return out

    def gradients(self):
        return [p.grad for p in (self.x, *self.nmt.parameters(), *self.bert.parameters())]


def make(kind, p_net=0.4):
    fusion = FUSION_KINDS[kind].build(SimpleNamespace(embed_dim=C, weights=(0.5, 0.5), p_net=p_net))
    randomise(fusion)
    return fusion


@pytest.mark.parametrize("kind", [name for name, kind in FUSION_KINDS.items() if kind.has_branches])
@pytest.mark.parametrize("case", U)
def test_a_branch_left_out_is_not_computed_and_all_equals_the_computation_of_both(monkeypatch, case, kind):
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), U[case]))
    lean, both = TwoLinear(), TwoLinear()
    fusion = make(kind).train()
    out = lean.fuse(fusion)
    nmt, bert = both.nmt(both.x), both.bert(both.x)
    factors = {"nmt alone": (1, 0, 0), "both": (0, 0, 1), "bert alone": (0, 1, 0)}[case]
    expected = factors[0] * nmt + factors[1] * bert + factors[2] * FORMULAS[kind](fusion.mix, nmt, bert)
    assert_close(out, expected)
    assert lean.calls == {"nmt alone": ["nmt"], "both": ["nmt", "bert"], "bert alone": ["bert"]}[case]
    out.square().sum().backward()
    for parameter in fusion.parameters():
        assert parameter.grad is not None
        assert parameter.grad.ne(0).any() == (case == "both")
    expected.square().sum().backward()  # which gives them zeros too
    for actual, reference in zip(lean.gradients(), both.gradients()):
        assert actual is not None
        assert_close(actual, reference)
