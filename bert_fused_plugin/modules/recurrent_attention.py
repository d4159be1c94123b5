"""The kinds of attention that a recurrent decoder can have: additive (Bahdanau et al. 2015), dot products, or none.

A new kind is a `RecurrentAttention` and a row of `RECURRENT_ATTENTIONS`, from which flag, checks and builder follow.
"""

from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.attention_map import attention_weights_of, build_attention_map

MAX_CACHED_NUMBERS = 2**18  # one MiB in fp32, which fits into the cache of a CPU core


class RecurrentAttention(nn.Module):
    """alpha_i = pi(e_i) over j, with the energies e_ij of a query s_i and keys h_j, and a map pi such as softmax.

    A kind of attention has either `steps`, its energies with gradients written by hand, or `energies`, which autograd
    follows.

    The decoder applies both projections itself: it projects the keys once for a sentence, and it joins the product
    with the queries' matrix with other products of the state.  Therefore both projections are without bias, and both
    are A wide: *attention_dim*, the paper's n'.  The width of s is *query_dim*, and that of h_j is *key_dim*.
    """

    def __init__(self, query_dim: int, key_dim: int, attention_dim: int, attention_map: str = "softmax") -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, attention_dim, bias=False)  # W_a
        self.key_proj = nn.Linear(key_dim, attention_dim, bias=False)  # U_a
        self.attention_map: Any = build_attention_map(attention_map, num_heads=1)

    def forward(self, query: Tensor, keys: Tensor, padding_mask: Tensor) -> Tensor:
        """Return alpha, (B, K, S), the weights of the S positions for each of K queries.

        Args:
            query: the projected queries, (B, K, A).
            keys: the projected keys, (B, S, A).
            padding_mask: the positions that get no weight, (B, S).
        """
        return self.weights(self.energies(query, keys), padding_mask)

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the energies, (B, K, S), of projected queries, (B, K, A), and keys, (B, S, A)."""
        steps = self.steps(keys)
        assert steps is not None
        if not torch.is_grad_enabled():  # in a step of decoding, autograd's own work would show
            return steps.energies(query)
        return _Energies.apply(self.steps, query, keys, *steps.vectors)

    def steps(self, keys: Tensor) -> Optional["AttentionSteps"]:
        """Return the energies of *keys* in many steps, with gradients written by hand; None if there are none."""
        return None

    def weights(self, energies: Tensor, padding_mask: Tensor) -> Tensor:
        """Return the weights of *energies*, (B, K, S), without those of padding; the map computes in fp32."""
        energies = energies.masked_fill(padding_mask.unsqueeze(1), -torch.inf)
        return attention_weights_of(self.attention_map, energies).to(energies.dtype)

    def weights_backward(self, alpha: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of the energies, in fp32 as the map, which must not be learned, from that of *alpha*."""
        dtype = torch.promote_types(alpha.dtype, torch.float32)
        if self.attention_map is not None:
            return self.attention_map.backward(alpha.to(dtype), gradient.to(dtype)).to(alpha.dtype)
        weighted = alpha.to(dtype) * gradient.to(dtype)
        return torch.sub(weighted, alpha.to(dtype) * weighted.sum(dim=-1, keepdim=True)).to(alpha.dtype)

    def initialise_vectors(self) -> None:
        """Draw the vectors that must not begin at zero, such as v_a; a general initialisation sets vectors to zero."""


class AdditiveAttention(RecurrentAttention):
    """e_ij = v_a^T tanh(W_a s + U_a h_j) (Bahdanau et al., ICLR 2015, A.1.2)."""

    def __init__(self, query_dim: int, key_dim: int, attention_dim: int, attention_map: str = "softmax") -> None:
        super().__init__(query_dim, key_dim, attention_dim, attention_map)
        self.v = nn.Parameter(torch.empty(attention_dim).uniform_(-0.1, 0.1))

    def steps(self, keys: Tensor) -> "AttentionSteps":
        """Return the energies of *keys* in many steps."""
        return _AdditiveSteps(keys, self.v)

    def initialise_vectors(self) -> None:
        """Draw v_a from N(0, 1 / A)."""
        nn.init.normal_(self.v, std=self.v.numel() ** -0.5)


class DotAttention(RecurrentAttention):
    """e_ij = k_j . q_i, with k_j = W_K h_j and q_i = W_Q s."""

    def steps(self, keys: Tensor) -> "AttentionSteps":
        """Return the energies of *keys* in many steps."""
        return _DotSteps(keys)


class AttentionKind(NamedTuple):
    """An entry of the table of attentions."""

    build: Optional[Callable[..., RecurrentAttention]]  # None for a decoder without attention
    help: str  # in the help of ``--attention``


RECURRENT_ATTENTIONS: Dict[str, AttentionKind] = {
    "additive": AttentionKind(AdditiveAttention, "v_a^T tanh(W_a s + U_a h_j), as in the paper"),
    "dot": AttentionKind(DotAttention, "dot products of projected states and annotations"),
    "none": AttentionKind(None, "no attention, so the encoder's summary is the context of each step"),
}


class AttentionSteps(ABC):
    """The energies of the same projected keys, (B, S, A), in many steps, and their gradients, written by hand.

    Autograd would give the keys a gradient of its own in each step, and add up as many as there are steps.  The
    *vectors* are further parameters of the energies.
    """

    def __init__(self, keys: Tensor, *vectors: Tensor) -> None:
        self.keys = keys
        self.vectors = vectors

    @abstractmethod
    def energies(self, query: Tensor) -> Tensor:
        """Return the energies, (B, K, S), of the K projected queries, (B, K, A)."""

    @abstractmethod
    def backward(self, query: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of *query*, (B, K, A), from that of its energies, (B, K, S)."""

    @abstractmethod
    def gradients(self, queries: Tensor, gradients: Tensor) -> Tuple[Tensor, ...]:
        """Return the gradients of the keys and of the vectors, after `backward` was called for each of the steps.

        The *queries* are those of all steps, (B, T, A), and the *gradients* are those of their energies, (B, T, S).
        """


class _AdditiveSteps(AttentionSteps):
    """The energies v^T tanh(query + keys), with one vector v, (A).

    The tanh has (B, K, S, A) numbers in each step.  Therefore it is not kept but computed again in the backward pass.
    On a CPU it is computed for some sentences at a time, so that its numbers stay in the cache while they are used, and
    as 2 sigmoid(2x) - 1, because torch's sigmoid is about five times as fast as its tanh there.  The factors of the
    sigmoid, and v in the gradients, are applied to the sums.
    """

    def __init__(self, keys: Tensor, v: Tensor) -> None:
        super().__init__(keys, v)
        self._by_sigmoid = keys.device.type == "cpu"
        self._inner = 2 * keys if self._by_sigmoid else keys
        self._sums: Optional[Tuple[Tensor, Tensor]] = None

    def energies(self, query: Tensor) -> Tensor:
        v = self.vectors[0]
        parts = [self._squash(q, k) @ v for q, k in _parts(query, self._inner)]
        energies = parts[0] if len(parts) == 1 else torch.cat(parts)
        return torch.sub(2 * energies, v.sum()) if self._by_sigmoid else energies

    def backward(self, query: Tensor, gradient: Tensor) -> Tensor:
        to_query = torch.empty_like(query)
        if self._sums is None:
            self._sums = torch.zeros_like(self.keys), torch.zeros_like(self.vectors[0])
        to_keys, to_v = self._sums
        for q, k, to_q, to_k, to_energies in _parts(query, self._inner, to_query, to_keys, gradient):
            squashed = self._squash(q, k)
            to_v += to_energies.flatten() @ squashed.flatten(0, 2)
            if self._by_sigmoid:
                inside = squashed.addcmul_(squashed, squashed, value=-1)
            else:
                inside = squashed.square_().neg_().add_(1)
            inside.mul_(to_energies.unsqueeze(-1))
            torch.sum(inside, dim=2, out=to_q)
            to_k += inside.sum(dim=1) if inside.size(1) > 1 else inside.squeeze(1)
        return to_query.mul_(self._slope())

    def gradients(self, queries: Tensor, gradients: Tensor) -> Tuple[Tensor, ...]:
        assert self._sums is not None
        (to_keys, to_v), self._sums = self._sums, None
        return to_keys.mul_(self._slope()), 2 * to_v - gradients.sum() if self._by_sigmoid else to_v

    def _squash(self, query: Tensor, inner: Tensor) -> Tensor:
        """Return sigmoid(2 query + inner), or tanh(query + inner), (B, K, S, A)."""
        if self._by_sigmoid:
            return ((2 * query).unsqueeze(2) + inner.unsqueeze(1)).sigmoid_()
        return (query.unsqueeze(2) + inner.unsqueeze(1)).tanh_()

    def _slope(self) -> Tensor:
        """Return the factor of the gradients of query and keys: tanh' = 1 - tanh^2 = 4 sigmoid (1 - sigmoid)."""
        return 4 * self.vectors[0] if self._by_sigmoid else self.vectors[0]


class _DotSteps(AttentionSteps):
    """The energies query . keys; the keys get their gradient by one product for all steps."""

    def energies(self, query: Tensor) -> Tensor:
        return torch.bmm(query, self.keys.transpose(1, 2))

    def backward(self, query: Tensor, gradient: Tensor) -> Tensor:
        return torch.bmm(gradient, self.keys)

    def gradients(self, queries: Tensor, gradients: Tensor) -> Tuple[Tensor, ...]:
        return (torch.bmm(gradients.transpose(1, 2), queries),)


class _Energies(torch.autograd.Function):
    """The energies of the queries of one step, with the gradients of `AttentionSteps`, made anew to save memory."""

    @staticmethod
    def forward(
        ctx: Any, make_steps: Callable[[Tensor], AttentionSteps], query: Tensor, keys: Tensor, *vectors: Tensor
    ) -> Tensor:
        ctx.make_steps = make_steps
        ctx.save_for_backward(query, keys, *vectors)
        return make_steps(keys).energies(query)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Optional[Tensor], ...]:
        (query, keys, *_), [to_energies] = ctx.saved_tensors, gradients
        steps = ctx.make_steps(keys)
        return (None, steps.backward(query, to_energies), *steps.gradients(query, to_energies))


def _parts(query: Tensor, keys: Tensor, *others: Tensor) -> "List[Tuple[Tensor, ...]]":
    """Return parts of the sentences; on a CPU the tanh of a part has at most MAX_CACHED_NUMBERS numbers."""
    size = max(1, MAX_CACHED_NUMBERS // max(1, query.size(1) * keys.size(1) * query.size(2)))
    if query.device.type != "cpu" or size >= len(query):
        return [(query, keys, *others)]
    return list(zip(*(tensor.split(size) for tensor in (query, keys, *others))))
