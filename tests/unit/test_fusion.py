import pytest
import torch
from helpers import assert_close
from torch import nn

from bert_fused_plugin.modules.fusion import ParallelFusion

U = {"other alone": 0.1, "both": 0.5, "bert alone": 0.9}
WEIGHTS = {"other alone": (1.0, 0.0), "both": (0.5, 0.5), "bert alone": (0.0, 1.0)}


class Branches:
    """Two linear branches that count how often they are computed."""

    def __init__(self):
        torch.manual_seed(3)
        self.other, self.bert = nn.Linear(4, 3), nn.Linear(4, 3)
        self.x = torch.randn(5, 4, requires_grad=True)
        self.calls = []

    def run(self, name):
        self.calls.append(name)
        return getattr(self, name)(self.x)

    def gradients(self):
        return [p.grad for p in (self.x, *self.other.parameters(), *self.bert.parameters())]


@pytest.mark.parametrize("case", U)
def test_a_branch_of_weight_zero_is_not_computed_and_all_equals_the_computation_of_both(monkeypatch, case):
    monkeypatch.setattr(torch, "rand", lambda size: torch.tensor(U[case]))
    w_other, w_bert = WEIGHTS[case]
    lean, both = Branches(), Branches()
    out = ParallelFusion(0.4).train()(
        lambda: lean.run("other"), lambda: lean.run("bert"), other_module=lean.other, bert_module=lean.bert
    )
    expected = w_other * both.run("other") + w_bert * both.run("bert")
    assert torch.equal(out, expected)
    assert lean.calls == [name for name, weight in (("other", w_other), ("bert", w_bert)) if weight]
    out.square().sum().backward()
    expected.square().sum().backward()
    for actual, reference in zip(lean.gradients(), both.gradients()):
        assert actual is not None
        assert torch.equal(actual, reference)


def test_frozen_parameters_get_no_gradient(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda size: torch.tensor(0.0))
    branches = Branches()
    branches.bert.requires_grad_(False)
    out = ParallelFusion(1.0).train()(
        lambda: branches.run("other"),
        lambda: branches.run("bert"),
        other_module=branches.other,
        bert_module=branches.bert,
    )
    out.sum().backward()
    assert branches.bert.weight.grad is None


def test_evaluation_computes_both_with_their_weights():
    branches = Branches()
    out = ParallelFusion(1.0, (0.7, 0.2)).eval()(
        lambda: branches.run("other"),
        lambda: branches.run("bert"),
        other_module=branches.other,
        bert_module=branches.bert,
    )
    assert branches.calls == ["other", "bert"]
    assert_close(out, 0.7 * branches.other(branches.x) + 0.2 * branches.bert(branches.x))
