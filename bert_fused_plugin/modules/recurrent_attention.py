"""The kinds of attention that a recurrent decoder can have: additive (Bahdanau et al. 2015), dot products, or none."""

from abc import abstractmethod
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.attention_map import attention_weights_of, build_attention_map
from bert_fused_plugin.modules.device_choices import launches_matter

MAX_CACHED_NUMBERS = 2**18  # one MiB in fp32, which fits into the cache of a CPU core


class RecurrentAttention(nn.Module):
    """alpha_i = pi(e_i) over j, with the energies e_ij of a query s and keys h_j, and a map pi such as softmax.

    The decoder applies both projections itself: that of the keys once for a sentence, and that of the queries together
    with other products of the state.  Therefore both are without bias, and A wide: *attention_dim*, the paper's n'.
    """

    def __init__(self, query_dim: int, key_dim: int, attention_dim: int, attention_map: str = "softmax") -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, attention_dim, bias=False)  # W_a
        self.key_proj = nn.Linear(key_dim, attention_dim, bias=False)  # U_a
        self.attention_map: Any = build_attention_map(attention_map, num_heads=1)

    def forward(self, query: Tensor, keys: Tensor, padding_mask: Tensor) -> Tensor:
        """Return alpha, (B, K, S), of projected queries, (B, K, A), and keys, (B, S, A); padding gets no weight."""
        energies = self.energies(query, keys).masked_fill(padding_mask.unsqueeze(1), -torch.inf)
        return attention_weights_of(self.attention_map, energies).to(energies.dtype)

    @abstractmethod
    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the energies, (B, K, S), of projected queries, (B, K, A), and keys, (B, S, A)."""


class AdditiveAttention(RecurrentAttention):
    """e_ij = v_a^T tanh(W_a s + U_a h_j) (Bahdanau et al., ICLR 2015, A.1.2)."""

    def __init__(self, query_dim: int, key_dim: int, attention_dim: int, attention_map: str = "softmax") -> None:
        super().__init__(query_dim, key_dim, attention_dim, attention_map)
        self.v = nn.Parameter(torch.empty(attention_dim).uniform_(-0.1, 0.1))

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the energies, (B, K, S), of projected queries, (B, K, A), and keys, (B, S, A)."""
        if launches_matter(query):  # this way has the fewest
            return torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1)) @ self.v
        if not torch.is_grad_enabled():  # in a step of decoding, autograd's own work would show
            return _additive_energies(query, keys, self.v)
        return _AdditiveEnergies.apply(query, keys, self.v)


class DotAttention(RecurrentAttention):
    """e_ij = k_j . q_i, with k_j = W_K h_j and q_i = W_Q s."""

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the energies, (B, K, S), of projected queries, (B, K, A), and keys, (B, S, A)."""
        return torch.bmm(query, keys.transpose(1, 2))


class AttentionKind(NamedTuple):
    """An entry of the table of attentions."""

    build: Optional[Callable[..., RecurrentAttention]]  # None for a decoder without attention
    help: str  # in the help of ``--attention``


RECURRENT_ATTENTIONS: Dict[str, AttentionKind] = {
    "additive": AttentionKind(AdditiveAttention, "v_a^T tanh(W_a s + U_a h_j), as in the paper"),
    "dot": AttentionKind(DotAttention, "dot products of projected states and annotations"),
    "none": AttentionKind(None, "no attention, so the encoder's summary is the context of each step"),
}


class _AdditiveEnergies(torch.autograd.Function):
    """On a CPU, the energies v^T tanh(query + keys), whose tanh, (B, K, S, A), the backward pass computes again.

    With sigma = sigmoid(2x), tanh x = 2 sigma - 1 and its derivative is 4 sigma (1 - sigma).  The factors, and v in the
    gradients, are applied to the sums.  In half precision, the differences of sigma would lose most digits.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys, v)
        return _additive_energies(query, keys, v)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, ...]:
        dtypes = [tensor.dtype for tensor in ctx.saved_tensors]
        exact = torch.promote_types(dtypes[-1], torch.float32)
        query, keys, v, to_energies = (tensor.to(exact) for tensor in (*ctx.saved_tensors, *gradients))
        to_query, to_keys, to_v = torch.empty_like(query), torch.empty_like(keys), torch.zeros_like(v)
        for q, k, to_q, to_k, to_e in _parts(query, keys, to_query, to_keys, to_energies):
            sigma = _sigma(q, k)
            to_v += to_e.flatten() @ sigma.flatten(0, 2)
            inside = sigma.addcmul_(sigma, sigma, value=-1).mul_(to_e.unsqueeze(-1))
            torch.sum(inside, dim=2, out=to_q)
            torch.sum(inside, dim=1, out=to_k)
        grads = to_query.mul_(4 * v), to_keys.mul_(4 * v), 2 * to_v - to_energies.sum()
        return tuple(map(torch.Tensor.to, grads, dtypes))


def _additive_energies(query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    exact = torch.promote_types(v.dtype, torch.float32)
    with torch.autocast("cpu", enabled=False):
        parts = [_sigma(q.to(exact), k.to(exact)) @ v.to(exact) for q, k in _parts(query, keys)]
    return torch.sub(2 * (parts[0] if len(parts) == 1 else torch.cat(parts)), v.sum(dtype=exact)).to(query.dtype)


def _sigma(query: Tensor, keys: Tensor) -> Tensor:
    """Return sigmoid(2 (query + keys)), (B, K, S, A), which torch computes on a CPU five times as fast as a tanh."""
    return torch.add((2 * query).unsqueeze(2), keys.unsqueeze(1), alpha=2).sigmoid_()


def _parts(query: Tensor, keys: Tensor, *others: Tensor) -> "List[Tuple[Tensor, ...]]":
    size = max(1, MAX_CACHED_NUMBERS // max(1, query.size(1) * keys.size(1) * query.size(2)))
    return list(zip(*(tensor.split(size) for tensor in (query, keys, *others))))
