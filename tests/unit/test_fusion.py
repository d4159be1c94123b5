import pytest
import torch
from helpers import assert_close, randomise
from torch import nn

from bert_fused_plugin.modules.drop_net import DropNet
from bert_fused_plugin.modules.fusion import Fusion, FusionOptions, Gate, WeightedSum

U = {"other alone": 0.1, "both": 0.5, "bert alone": 0.9}
B, C = 4, 3


class Branches:
    """Two linear branches that count how often they are computed."""

    def __init__(self):
        torch.manual_seed(3)
        self.other, self.bert = nn.Linear(5, C), nn.Linear(5, C)
        self.x = torch.randn(2, B, 5, requires_grad=True)
        self.calls = []

    def run(self, name):
        self.calls.append(name)
        return getattr(self, name)(self.x)

    def fuse(self, fusion):
        return fusion(
            lambda: self.run("other"),
            lambda: self.run("bert"),
            batch_size=B,
            other_module=self.other,
            bert_module=self.bert,
        )

    def gradients(self):
        return [p.grad for p in (self.x, *self.other.parameters(), *self.bert.parameters())]


def make(kind, p_net=0.4, per_sentence=False, weights=(0.5, 0.5)):
    fusion = FusionOptions(kind=kind, p_net=p_net, per_sentence=per_sentence, weights=weights).build(C)
    randomise(fusion)
    return fusion


def literal(kind, fusion, other, bert, weights=(0.5, 0.5)):
    """Both branches joined, position by position."""
    if kind == "parallel":
        return weights[0] * other + weights[1] * bert
    w, u = fusion.mix.w, fusion.mix.u
    out = torch.empty_like(other)
    for t in range(out.size(0)):
        for b in range(out.size(1)):
            gate = 1 / (1 + torch.exp(-(w.weight @ bert[t, b] + w.bias + u.weight @ other[t, b])))
            out[t, b] = gate * bert[t, b] + (1 - gate) * other[t, b]
    return out


@pytest.mark.parametrize("kind", ["parallel", "gated"])
@pytest.mark.parametrize("case", U)
def test_a_branch_left_out_is_not_computed_and_all_equals_the_computation_of_both(monkeypatch, case, kind):
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), U[case]))
    lean, both = Branches(), Branches()
    fusion = make(kind).train()
    out = lean.fuse(fusion)
    other, bert = both.run("other"), both.run("bert")
    factors = {"other alone": (1, 0, 0), "both": (0, 0, 1), "bert alone": (0, 1, 0)}[case]
    expected = factors[0] * other + factors[1] * bert + factors[2] * literal(kind, fusion, other, bert)
    assert_close(out, expected)
    assert lean.calls == {"other alone": ["other"], "both": ["other", "bert"], "bert alone": ["bert"]}[case]
    out.square().sum().backward()
    for parameter in fusion.parameters():
        assert parameter.grad is not None
        assert parameter.grad.ne(0).any() == (case == "both")
    expected.square().sum().backward()  # which gives them zeros too
    for actual, reference in zip(lean.gradients(), both.gradients()):
        assert actual is not None
        assert_close(actual, reference)


@pytest.mark.parametrize("kind", ["parallel", "gated"])
def test_drop_net_for_each_sentence_gives_each_sentence_its_own_case(monkeypatch, kind):
    monkeypatch.setattr(torch, "rand", lambda size: torch.tensor([0.1, 0.5, 0.9, 0.15])[:size])
    branches, fusion = Branches(), make(kind, per_sentence=True).train()
    out = branches.fuse(fusion)
    other, bert = branches.other(branches.x), branches.bert(branches.x)
    joined = literal(kind, fusion, other, bert)
    expected = torch.stack([other[:, 0], joined[:, 1], bert[:, 2], other[:, 3]], dim=1)
    assert_close(out, expected)
    out.sum().backward()
    assert all(gradient is not None for gradient in branches.gradients())


def test_frozen_parameters_get_no_gradient(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda size: torch.zeros(size))
    branches = Branches()
    branches.bert.requires_grad_(False)
    branches.fuse(make("parallel", 1.0).train()).sum().backward()
    assert branches.bert.weight.grad is None


@pytest.mark.parametrize("kind", ["parallel", "gated"])
def test_evaluation_computes_both(kind):
    branches, fusion = Branches(), make(kind, 1.0, weights=(0.7, 0.2)).eval()
    out = branches.fuse(fusion)
    assert branches.calls == ["other", "bert"]
    other, bert = branches.other(branches.x), branches.bert(branches.x)
    assert_close(out, literal(kind, fusion, other, bert, (0.7, 0.2)))


def test_the_kinds():
    assert isinstance(make("parallel").mix, WeightedSum)
    assert isinstance(make("gated").mix, Gate)
    assert isinstance(make("gated"), Fusion)
    assert isinstance(make("gated").drop_net, DropNet)
    assert FusionOptions(kind="stacked").stacked
    assert not FusionOptions(kind="gated").stacked
