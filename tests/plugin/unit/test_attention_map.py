"""The maps from scores to weights against the functions of the package entmax, which know nothing of padding."""

import entmax
import pytest
import torch
from helpers import assert_close

from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS, LearnedEntmax, build_attention_map

B, H, T, S = 3, 2, 4, 6
MAPS = [name for name in ATTENTION_MAPS if name != "softmax"]
INF, NAN = torch.inf, torch.nan


@pytest.fixture(params=MAPS)
def name(request):
    return request.param


@pytest.fixture
def pi(name):
    """The map in double precision, with an alpha of its own for each head."""
    result = build_attention_map(name, H).double()
    for parameter in result.parameters():
        torch.nn.init.normal_(parameter)
    return result


@pytest.fixture
def scores():
    """Scores whose last two positions are padding in the first sentence, and the first one in the second."""
    result = 2 * torch.randn(B, H, T, S, dtype=torch.double)
    result[0, ..., 4:] = result[1, ..., :1] = -INF
    return result


def of_library(name, pi, row, head):
    """Return the weights of one *row* without padding."""
    if name == "entmax":
        return entmax.entmax_bisect(row, 1 + float(torch.sigmoid(pi.raw_alpha[head]).detach()), dim=0)
    return {"sparsemax": entmax.sparsemax, "entmax15": entmax.entmax15}[name](row, dim=0)


def test_weights_are_those_of_the_library_and_padding_gets_exactly_none(name, pi, scores):
    weights = pi(scores)
    for b, h, t in torch.cartesian_prod(torch.arange(B), torch.arange(H), torch.arange(T)).tolist():
        kept = scores[b, h, t] > -INF
        assert_close(weights[b, h, t][kept], of_library(name, pi, scores[b, h, t][kept], h))
        assert not weights[b, h, t][~kept].any()
    assert_close(weights.sum(dim=-1), torch.ones(B, H, T).double())
    assert 0.2 < weights.eq(0).float().mean() < 0.9


def test_gradients_are_right_with_padding(pi, scores):
    finite = scores.masked_fill(scores == -INF, 0.0).requires_grad_()
    parameters = list(pi.parameters())
    assert torch.autograd.gradcheck(
        lambda x, *_: pi(x.masked_fill(scores == -INF, -INF)), (finite, *parameters), fast_mode=True
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_precision(pi, scores, dtype):
    pi, half = pi.to(dtype), scores.to(dtype)
    weights = pi(half)
    assert weights.dtype == torch.float32
    assert torch.equal(weights, pi.float()(half.float()))


def test_a_row_of_padding_alone_gets_no_weight_and_no_gradient(pi, scores):
    scores[1, 0, 2] = -INF
    scores.requires_grad_()
    weights = pi(scores)
    assert not weights[1, 0, 2].any()
    (weights * torch.randn_like(weights)).sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in pi.parameters())


@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_score_that_is_no_number_spoils_its_row_alone(pi, scores, bad):
    """As half precision has them before a step is skipped; the library itself stops with an error of an index."""
    expected = pi(scores)
    scores[2, 1, 3, 0] = bad
    weights = pi(scores)
    assert weights[2, 1, 3].isnan().all()
    weights[2, 1, 3] = expected[2, 1, 3]
    assert torch.equal(weights, expected)


@pytest.mark.parametrize("shift", [2.0**13, 2.0**40, -(2.0**100)])
def test_what_is_added_to_all_scores_changes_nothing(pi, shift):
    """Single precision holds these sums exactly, but the bisection of the library loses tau beside them."""
    step = max(2.0**-10, abs(shift) * 2.0**-22)
    scores = step * torch.tensor([[[[0.0, 1.0, 3.0, 2.0]]]]).expand(1, H, 1, 4)
    expected = pi(scores.double())
    weights = pi.float()((scores + shift).float())
    assert_close(weights, expected.float(), atol=2e-6)


def test_alpha_begins_half_way_and_belongs_to_its_head(scores):
    pi = LearnedEntmax(H).double()
    assert pi.alpha().tolist() == [1.5] * H
    assert_close(pi(scores), build_attention_map("entmax15", H)(scores))
    with torch.no_grad():
        pi.raw_alpha[1] = 30.0  # sparsemax
    assert_close(pi(scores)[:, 0], build_attention_map("entmax15", H)(scores)[:, 0])
    assert_close(pi(scores)[:, 1], build_attention_map("sparsemax", H)(scores)[:, 1])


def test_alpha_stays_above_softmax_and_can_leave_the_bound(scores):
    pi = LearnedEntmax(H).double()
    torch.nn.init.constant_(pi.raw_alpha, -40.0)
    assert pi.alpha().tolist() == pytest.approx([1.01] * H)
    assert_close(pi(scores), torch.softmax(scores, dim=-1), atol=0.05)
    torch.nn.init.constant_(pi.raw_alpha, -6.0)
    (pi(scores) * torch.randn_like(scores)).sum().backward()
    assert (pi.raw_alpha.grad != 0).all()
    assert torch.isfinite(pi.raw_alpha.grad).all()
