"""Log-probabilities of a step of the search."""

import pytest
import torch

from bert_fused_plugin.models.translation_model import SearchScores


@pytest.fixture
def decoder():
    return SearchScores(dictionary=None)


@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("symbols", [2, 7, 1000])
def test_those_of_a_step_take_the_place_of_the_scores(decoder, rows, symbols):
    scores = torch.randn(rows, 1, symbols) * 5
    expected = scores.log_softmax(-1)
    found = decoder.get_normalized_probs((scores, None), log_probs=True)
    assert torch.equal(found, expected)
    assert found.data_ptr() == scores.data_ptr()


@pytest.mark.parametrize("positions", [1, 2])
@pytest.mark.parametrize("log_probs", [True, False])
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_all_others_leave_the_scores_alone(decoder, positions, log_probs, dtype):
    scores = torch.randn(2, positions, 9).to(dtype)
    if positions == 1 and log_probs and dtype == torch.float:
        scores.requires_grad_()
    before = scores.clone()
    found = decoder.get_normalized_probs((scores, None), log_probs=log_probs)
    expected = before.float().softmax(-1)
    torch.testing.assert_close(found, expected.log() if log_probs else expected)
    assert torch.equal(scores, before)


def test_scores_of_inference_mode_are_left_alone_outside_of_it(decoder):
    with torch.inference_mode():
        scores = torch.randn(2, 1, 9)
        before = scores.clone()
    found = decoder.get_normalized_probs((scores, None), log_probs=True)
    torch.testing.assert_close(found, before.log_softmax(-1))
    with torch.inference_mode():
        assert decoder.get_normalized_probs((scores, None), log_probs=True).data_ptr() == scores.data_ptr()
