"""Attention of a recurrent decoder: additive (Bahdanau et al. 2015) and by dot products."""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """e_ij = v_a^T tanh(W_a s + U_a h_j), alpha_i = softmax over j (Bahdanau et al., ICLR 2015, A.1.2).

    With *coverage* the attention that a position got so far, a_ij, counts too: e_ij = v_a^T tanh(W_a s + U_a h_j +
    w_c a_ij) (See et al., ACL 2017, equation 11).

    Args:
        query_dim: width of s.
        key_dim: width of h_j.
        attention_dim: A, the paper's n'.
        coverage: learn from the attention so far.
    """

    def __init__(self, query_dim: int, key_dim: int, attention_dim: int, coverage: bool = False) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, attention_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, attention_dim, bias=False)
        self.v = nn.Parameter(torch.empty(attention_dim).uniform_(-0.1, 0.1))
        self.coverage_weight: Optional[nn.Parameter] = None
        if coverage:
            self.coverage_weight = nn.Parameter(torch.empty(attention_dim).uniform_(-0.1, 0.1))

    def forward(self, query: Tensor, keys: Tensor, padding_mask: Tensor, coverage: Optional[Tensor] = None) -> Tensor:
        """Return alpha, (B, K, S), of K queries for each sentence.

        Args:
            query: W_a s, (B, K, A).
            keys: U_a h, (B, S, A), computed once for a sentence.
            padding_mask: (B, S).
            coverage: the sum of alpha so far, (B, K, S), for attention with coverage.
        """
        if self.coverage_weight is None and torch.is_grad_enabled():
            energies = _Energies.apply(query, keys, self.v)
        elif self.coverage_weight is None:
            energies = (query.unsqueeze(2) + keys.unsqueeze(1)).tanh_() @ self.v
        else:
            assert coverage is not None
            hidden = query.unsqueeze(2) + keys.unsqueeze(1) + coverage.unsqueeze(-1) * self.coverage_weight
            energies = torch.tanh(hidden) @ self.v
        return _softmax(energies, padding_mask)


class DotAttention(nn.Module):
    """alpha_i = softmax(k_j . q_i) over j, with k_j = W_K h_j and q_i = W_Q s.

    Args:
        query_dim: width of s.
        key_dim: width of h_j.
        attention_dim: A.
        scaled: divide by the square root of A (Vaswani et al. 2017, equation 1).
    """

    def __init__(self, query_dim: int, key_dim: int, attention_dim: int, scaled: bool = False) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, attention_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, attention_dim, bias=False)
        self.scale = attention_dim**-0.5 if scaled else 1.0

    def forward(self, query: Tensor, keys: Tensor, padding_mask: Tensor, coverage: Optional[Tensor] = None) -> Tensor:
        """Return alpha, (B, K, S), of *query*, W_Q s, (B, K, A), and *keys*, W_K h, (B, S, A)."""
        return _softmax(torch.bmm(self.scale * query, keys.transpose(1, 2)), padding_mask)


def _softmax(energies: Tensor, padding_mask: Tensor) -> Tensor:
    energies = energies.masked_fill(padding_mask.unsqueeze(1), -torch.inf)
    return torch.softmax(energies, dim=-1, dtype=torch.promote_types(energies.dtype, torch.float32)).to(energies.dtype)


class _Energies(torch.autograd.Function):
    """v^T tanh(query + keys); the tanh, (B, K, S, A) in each step, is computed again instead of kept."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys, v)
        return (query.unsqueeze(2) + keys.unsqueeze(1)).tanh_() @ v

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        query, keys, v = ctx.saved_tensors
        [gradient] = gradients
        hidden = (query.unsqueeze(2) + keys.unsqueeze(1)).tanh_()
        to_v = gradient.flatten() @ hidden.flatten(0, 2)
        inside = hidden.square_().neg_().add_(1).mul_(v).mul_(gradient.unsqueeze(-1))
        return inside.sum(dim=2), inside.sum(dim=1), to_v
