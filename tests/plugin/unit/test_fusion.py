"""Drop-net: its draws, and layers whose branches it leaves out, against the computation of both branches."""

import pytest
import torch
from helpers import FORMULAS, assert_close, randomise

from bert_fused_plugin.modules import drop_net
from bert_fused_plugin.modules.drop_net import DropNet, batch_rng
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
        needed = (True, True)
        out, *weights = self.layer.attend(self.x, self.nmt, memories[0], torch.nn.Identity(), memories[1], needed)
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


# --- drop-net's draws


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
