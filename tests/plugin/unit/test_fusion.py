"""Layers whose branches drop-net leaves out, against the computation of both branches."""

import pytest
import torch
from helpers import FORMULAS, assert_close, randomise

from bert_fused_plugin.modules.fused_layer import FusedLayer, LayerOptions
from bert_fused_plugin.modules.fusion import FUSION_KINDS

U = {"nmt alone": 0.1, "both": 0.5, "bert alone": 0.9}
B, T, C = 2, 4, 6


class TwoLinear:
    """Two linear maps as the branches of a layer, which count how often they are computed."""

    def __init__(self, kind):
        torch.manual_seed(3)
        rates = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)
        sizes = {"embed_dim": C, "ffn_dim": 5, "num_heads": 2, "bert_dim": 3}
        self.layer = FusedLayer(
            LayerOptions(**sizes, **rates, activation_fn=torch.relu, normalize_before=True, fusion=kind, p_net=0.4)
        )
        self.layer.add_bert()
        self.nmt, self.layer.bert_attn = (Counting(name) for name in ("nmt", "bert"))
        randomise(self.layer)
        randomise(self.nmt)
        self.x = torch.randn(B, T, C, requires_grad=True)

    def fuse(self):
        """Return what the layer adds to x, and the names of the branches that it computes."""
        nmt_alone, bert_alone = self.layer.drop_net()
        memories = (None if bert_alone else "memory of nmt", None if nmt_alone else "memory of bert")
        out, *weights = self.layer.attend(self.x, self.nmt, memories[0], torch.nn.Identity(), memories[1], True)
        return out - self.x, [weight for weight in weights if weight is not None]

    def gradients(self):
        return [p.grad for p in (self.x, *self.nmt.parameters(), *self.layer.bert_attn.parameters())]


class Counting(torch.nn.Linear):
    def __init__(self, name):
        super().__init__(C, C)
        self.name = name

    def forward(self, query, memory, need_weights):
        assert memory == f"memory of {self.name}"
        assert need_weights
        return super().forward(query), self.name


@pytest.mark.parametrize("kind", [name for name, kind in FUSION_KINDS.items() if kind.has_branches])
@pytest.mark.parametrize("case", U)
def test_a_branch_left_out_is_not_computed_and_all_equals_the_computation_of_both(monkeypatch, case, kind):
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), U[case]))
    lean, both = TwoLinear(kind), TwoLinear(kind)
    out, computed = lean.fuse()
    assert computed == {"nmt alone": ["nmt"], "both": ["nmt", "bert"], "bert alone": ["bert"]}[case]
    nmt, _ = both.nmt(both.x, "memory of nmt", True)
    bert, _ = both.layer.bert_attn(both.x, "memory of bert", True)
    factors = {"nmt alone": (1, 0, 0), "both": (0, 0, 1), "bert alone": (0, 1, 0)}[case]
    expected = factors[0] * nmt + factors[1] * bert + factors[2] * FORMULAS[kind](both.layer.mix, nmt, bert)
    assert_close(out, expected)
    out.square().sum().backward()
    for parameter in lean.layer.mix.parameters():
        assert parameter.grad is not None
        assert parameter.grad.ne(0).any() == (case == "both")
    expected.square().sum().backward()  # which gives them zeros too
    for actual, reference in zip(lean.gradients(), both.gradients()):
        assert actual is not None
        assert_close(actual, reference)
