"""What belongs to a sentence is kept once for all its beams."""

import pytest
import torch

from bert_fused_plugin.modules import beam_order
from bert_fused_plugin.modules.beam_order import sentences_to_keep


@pytest.fixture
def decisions(monkeypatch):
    """The questions that had to be decided."""
    seen = []
    decide = beam_order._decide
    monkeypatch.setattr(beam_order, "_decide", lambda *question: seen.append(question) or decide(*question))
    return seen


def test_an_order_is_decided_once_for_decoder_and_encoder(decisions):
    order = torch.tensor([1, 0, 2, 2])
    assert [sentences_to_keep(order, 2, 2) for _ in range(3)] == [(None, 2)] * 3
    assert len(decisions) == 1


def test_another_order_and_other_sentences_are_decided_anew(decisions):
    order = torch.tensor([1, 0, 2, 2])
    assert sentences_to_keep(order, 2, 2) == (None, 2)
    order.copy_(torch.tensor([3, 2, 1, 1]))
    keep, size = sentences_to_keep(order, 2, 2)
    assert (keep.tolist(), size) == ([1, 0], 2)
    keep, size = sentences_to_keep(order, 4, 1)  # the beams of this model are sentences of their own
    assert (keep.tolist(), size) == ([3, 2, 1, 1], 1)
    assert sentences_to_keep(torch.tensor([0, 1, 2, 3]), 4, 1) == (None, 1)
    assert len(decisions) == 4


def test_an_order_of_inference_mode_is_decided_each_time(decisions):
    with torch.inference_mode():
        order = torch.tensor([1, 0, 2, 2])
        assert [sentences_to_keep(order, 2, 2) for _ in range(2)] == [(None, 2)] * 2
    assert len(decisions) == 2
