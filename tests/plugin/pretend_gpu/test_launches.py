"""On a GPU, our models launch no more kernels than their share of those of fairseq's own models."""

from functools import cache

import pytest
from launches import COMPARISONS, UNALIGNED, Counts
from pretend import needs_pretend_gpu

pytestmark = needs_pretend_gpu
KINDS = ["parallel", "stacked", "bert_decoder", "special tokens masked", "gru: BERT"]


@pytest.fixture(scope="module")
def counts(cases):
    return Counts(cases)


@cache
def launches(counts, function):
    return sum(function(counts).values())


@pytest.mark.parametrize("name", COMPARISONS)
def test_launches_stay_within_our_share(counts, name):
    ours, stock, aim = COMPARISONS[name]
    assert 0 < launches(counts, ours) <= aim * launches(counts, stock)


@pytest.mark.parametrize("kind", KINDS)
def test_no_unaligned_mask_reaches_attention(counts, kind):
    tables = [counts.training(kind, cached=True).counts, counts.step(kind, cached=True)]
    assert UNALIGNED not in {operator for table in tables for operator, _ in table}


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_no_gradient_of_a_parameter_is_made_of_zeros(counts, rate):
    """Those of what drop-net leaves out are zeros, too, and come from one buffer."""
    options = {"bert_drop_net": rate}
    shapes = {tuple(p.shape) for p in counts.model("parallel", **options).parameters()}
    assert not shapes & {*counts.training("parallel", cached=True, **options).zeros_like}
