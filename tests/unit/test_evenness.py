"""What is said of attention that is so even that its largest weight means nothing."""

import pytest
import torch

from bert_fused_plugin.reports.attention_statistics import TOO_EVEN, Entropy, entropy, evenness


def test_the_layers_that_are_too_even_are_named():
    layers = [Entropy(4.0, 0.99), None, Entropy(2.0, 0.5), Entropy(3.9, 0.96)]
    assert evenness("source", layers) == (
        "The attention to the source in decoder layers 1, 4 is so even that its maps and alignments mean nothing: its "
        "entropy is 96% of the largest possible, and 95% or more says that all positions get nearly the same."
    )
    assert evenness("BERT", layers[:1]).startswith("The attention to BERT is so even that its maps")
    assert evenness("source", layers[1:3]) is None
    assert evenness("source", []) is None


@pytest.mark.parametrize(("largest", "even"), [(1 / 20, True), (0.15, True), (0.3, False), (0.9, False)])
def test_one_position_of_twenty_that_stands_out(largest, even):
    weights = torch.full((20,), (1 - largest) / 19)
    weights[7] = largest
    share = float(entropy(weights) / torch.tensor(20.0).log2())
    assert (share >= TOO_EVEN) is even
