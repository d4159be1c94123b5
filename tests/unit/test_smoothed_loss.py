"""The loss with label smoothing and its gradient, against torch's own."""

import pytest
import torch
import torch.nn.functional as F
from literal_loss import PAD, TARGET, B, T, V

from bert_fused_plugin.criterions.smoothed_loss import label_smoothed_loss


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_loss_and_gradient_equal_torchs_own_in_double_precision(eps):
    logits = (torch.randn(B, T, V, dtype=torch.double) * 3).requires_grad_()
    weights = torch.randn(B, T, dtype=torch.double)
    actual = label_smoothed_loss(logits, TARGET, eps, PAD)[0]
    (actual * weights).sum().backward()
    again = logits.detach().requires_grad_()
    loss = F.cross_entropy(
        again.view(-1, V), TARGET.view(-1), ignore_index=PAD, reduction="none", label_smoothing=eps
    ).view(B, T)
    (loss * weights).sum().backward()
    torch.testing.assert_close(actual.detach(), loss.detach(), check_dtype=False)
    torch.testing.assert_close(logits.grad, again.grad, atol=1e-14, rtol=1e-12)


def test_half_precision_is_computed_in_single():
    logits = torch.randn(B, T, V).half().requires_grad_()
    loss, _, _ = label_smoothed_loss(logits, TARGET, 0.1, PAD)
    loss.sum().backward()
    single = logits.detach().float().requires_grad_()
    expected = label_smoothed_loss(single, TARGET, 0.1, PAD)[0]
    expected.sum().backward()
    assert loss.dtype == torch.float32
    assert torch.equal(loss, expected)
    assert logits.grad.dtype == torch.half
    assert torch.equal(logits.grad, single.grad.half())


def test_a_second_backward_is_refused_not_wrong():
    logits = torch.randn(B, T, V, requires_grad=True)
    loss = label_smoothed_loss(logits, TARGET, 0.1, PAD)[0].sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[[1e4, -1e4, 0.0]]], requires_grad=True)
    loss, _, _ = label_smoothed_loss(logits, torch.tensor([[1]]), 0.1, padding_idx=0)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(logits.grad).all()
