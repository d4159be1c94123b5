"""Two readings of a batch: their loss by its formula, and what the second reading lacks."""

import math
from types import SimpleNamespace

import pytest
import torch
from helpers import criterion_of
from literal_loss import PAD, TARGET, B, T, V, literal_loss

from bert_fused_plugin.criterions import smoothed_loss
from bert_fused_plugin.criterions.consistency import CONSISTENCY_KINDS, cut, read_twice
from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss, projected_loss
from bert_fused_plugin.errors import BertFusedError

C, ALPHA, EPS = 3, 1.7, 0.1
SIMCUT, R_DROP = (CONSISTENCY_KINDS[name].agreement(ALPHA) for name in ("simcut", "r-drop"))


def literal_divergence(p_logits, q_logits):
    """sum_i KL(p || q), symbol by symbol."""
    total = 0.0
    for p_row, q_row, symbol in zip(p_logits.view(-1, V), q_logits.view(-1, V), TARGET.view(-1)):
        if symbol == PAD:
            continue
        p, q = ([math.exp(x) / sum(math.exp(y) for y in row) for x in row] for row in (p_row.tolist(), q_row.tolist()))
        total += sum(x * math.log(x / y) for x, y in zip(p, q))
    return total


def literal_simcut(p, q):
    return literal_loss(p, TARGET, EPS) + ALPHA * literal_divergence(p, q)


def literal_r_drop(p, q):
    cross_entropy = (literal_loss(p, TARGET, EPS) + literal_loss(q, TARGET, EPS)) / 2
    return cross_entropy + ALPHA / 2 * (literal_divergence(p, q) + literal_divergence(q, p)) / 2


KINDS = pytest.mark.parametrize(("agreement", "literal"), [(SIMCUT, literal_simcut), (R_DROP, literal_r_drop)])


def of_scores(features, matrix, agreement):
    return [term.sum() for term in label_smoothed_loss(features @ matrix.t(), TARGET, EPS, PAD, agreement)]


def of_features(features, matrix, agreement):
    return projected_loss(features, matrix, TARGET, EPS, PAD, agreement)


def leaves():
    torch.manual_seed(0)
    return [torch.randn(*size, dtype=torch.double).requires_grad_() for size in ((B, T, 2, C), (V, C))]


@KINDS
@pytest.mark.parametrize("loss_of", [of_scores, of_features])
def test_the_loss_is_that_of_the_paper_and_its_gradient_too(agreement, literal, loss_of, monkeypatch):
    for name in ("_CPU_SCORES", "_GPU_SCORES"):
        monkeypatch.setattr(smoothed_loss, name, 4 * V)  # two positions at a time

    def expected(features, matrix):
        return literal(*(features @ matrix.t()).unbind(-2))

    given = leaves()
    loss, nll_loss, correct, divergence = loss_of(*given, agreement)
    p, q = (given[0] @ given[1].t()).detach().unbind(-2)
    assert loss.item() == pytest.approx(expected(*given), rel=1e-10)
    assert nll_loss.item() == pytest.approx(literal_loss(p, TARGET, 0.0), rel=1e-10)
    assert correct == (p.argmax(-1) == TARGET)[TARGET != PAD].sum()
    both = [literal_divergence(p, q), literal_divergence(q, p)]
    assert divergence.item() == pytest.approx(both[0] if agreement is SIMCUT else sum(both) / 2, rel=1e-10)
    (3 * loss).backward()
    with torch.no_grad():
        for leaf in given:
            for place in [(0,) * leaf.dim(), (*(size - 1 for size in leaf.shape[:-1]), 1)]:
                near = []
                for step in (1e-5, -1e-5):
                    leaf[place] += step
                    near.append(expected(*given))
                    leaf[place] -= step
                difference = 3 * (near[0] - near[1]) / 2e-5
                assert leaf.grad[place].item() == pytest.approx(difference, rel=1e-6, abs=1e-8)


def test_scores_that_are_computed_in_parts_keep_their_order(monkeypatch):
    scores = torch.randn(B, T, 2, V)
    whole = label_smoothed_loss(scores, TARGET, EPS, PAD, R_DROP)
    monkeypatch.setattr(smoothed_loss, "_GPU_SCORES", 4 * V)
    torch.testing.assert_close(torch.stack(label_smoothed_loss(scores, TARGET, EPS, PAD, R_DROP)), torch.stack(whole))


def test_a_position_is_cut_as_a_whole_and_as_often_as_p_cut():
    torch.manual_seed(0)
    states = cut(torch.ones(400, 50, C), 0.05)
    gone = states.eq(0)
    assert torch.equal(gone.all(-1), gone.any(-1))
    shares = gone[..., 0].float().mean(dim=0)  # at each position
    assert shares.mean() == pytest.approx(0.05, abs=0.005)
    assert shares.max() < 0.1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, (None, None)),
        ({"consistency": "simcut"}, (3.0, 0.05)),
        ({"consistency": "r-drop"}, (2.5, None)),  # half of alpha, for the mean of both directions
        ({"consistency": "simcut", "consistency_alpha": 2.0, "cutoff": 0.1}, (2.0, 0.1)),
        ({"consistency": "r-drop", "consistency_alpha": 0.0}, (None, None)),
    ],
)
def test_the_flags_choose_alpha_and_the_share_that_is_cut(flags, expected):
    criterion = criterion_of(SimpleNamespace(cfg={}, target_dictionary=None), **flags)
    assert (criterion.agreement and criterion.agreement.alpha, criterion.p_cut) == expected


def test_a_language_model_is_read_twice_but_has_no_tables_to_cut():
    model = torch.nn.Dropout(0.5)
    torch.manual_seed(1)
    first, second = read_twice(model, {"input": torch.ones(99)}, None)
    assert not first.equal(second)
    with pytest.raises(BertFusedError, match=r"simcut cuts what .* and Dropout does not have both; give --consistency"):
        read_twice(model, {"input": torch.ones(9)}, 0.1)


def test_a_model_whose_embeddings_are_not_found_is_refused():
    class Model:
        encoder = decoder = SimpleNamespace()

        def __call__(self, **net_input):
            return None

    with pytest.raises(BertFusedError, match="and Model does not have both; give --consistency r-drop"):
        read_twice(Model(), {}, 0.05)
