"""Attention of a recurrent decoder: additive (Bahdanau et al. 2015) and by dot products."""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor, nn

CACHED = 2**18  # numbers; one MiB in fp32, what the cache of a CPU core takes


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
        if self.coverage_weight is None:
            energies = _Energies.apply(query, keys, self.v)
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
    """v^T tanh(query + keys), (B, K, S), of (B, K, A), (B, S, A) and (A).

    The tanh, (B, K, S, A) in each step, is computed again in the backward pass instead of kept, and on a CPU for some
    sentences at a time, so that it stays in the cache through the passes over it.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys, v)
        return torch.cat([_tanh(*part) @ v for part in _parts(query, keys)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        query, keys, v = ctx.saved_tensors
        to_query, to_keys, to_v = torch.empty_like(query), torch.empty_like(keys), torch.zeros_like(v)
        parts = [_parts(*pair) for pair in ((query, keys), (to_query, to_keys))]
        for (q, k), (to_q, to_k), gradient in zip(*parts, gradients[0].split(len(parts[0][0][0]))):
            hidden = _tanh(q, k)
            to_v += gradient.flatten() @ hidden.flatten(0, 2)
            inside = torch.addcmul(v, hidden.square_(), v, value=-1, out=hidden).mul_(gradient.unsqueeze(-1))
            torch.sum(inside, dim=2, out=to_q)
            torch.sum(inside, dim=1, out=to_k)
        return to_query, to_keys, to_v


def _tanh(query: Tensor, keys: Tensor) -> Tensor:
    """Return tanh(query + keys), (B, K, S, A); on a CPU as 2 sigmoid(2x) - 1, five times as fast."""
    if query.device.type != "cpu":
        return (query.unsqueeze(2) + keys.unsqueeze(1)).tanh_()
    return ((2 * query).unsqueeze(2) + (2 * keys).unsqueeze(1)).sigmoid_().mul_(2).sub_(1)


def _parts(query: Tensor, keys: Tensor) -> List[Tuple[Tensor, Tensor]]:
    """Split the sentences so that the tanh of a part has at most CACHED numbers."""
    of_a_sentence = query.size(1) * keys.size(1) * max(1, query.size(2))
    size = max(1, CACHED // max(1, of_a_sentence)) if query.device.type == "cpu" else max(1, len(query))
    return list(zip(query.split(size), keys.split(size)))
