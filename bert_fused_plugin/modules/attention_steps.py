"""The energies of recurrent attentions and their gradients, written by hand, for many steps with the same keys.

Autograd would give the keys a gradient of its own in each step, and add up as many as there are steps.
"""

from abc import ABC, abstractmethod
from typing import List, Optional, Tuple

import torch
from torch import Tensor

MAX_CACHED_NUMBERS = 2**18  # one MiB in fp32, which fits into the cache of a CPU core


class AttentionSteps(ABC):
    """An attention to the same keys in many steps.

    Args:
        keys: the projected keys, (B, S, A).
        vectors: further parameters of the energies.
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

        Args:
            queries: the projected queries of all steps, (B, T, A).
            gradients: those of their energies, (B, T, S).
        """


class AdditiveSteps(AttentionSteps):
    """The energies v^T tanh(query + keys), with one vector v, (A).

    The tanh has (B, K, S, A) numbers in each step.  Therefore it is not kept but computed again in the backward pass.
    On a CPU it is computed for some sentences at a time, so that its numbers stay in the cache while they are used, and
    as 2 sigmoid(2x) - 1, because torch's sigmoid is about five times as fast as its tanh there.  The factors of the
    sigmoid, and v in the gradients, are applied to the sums.
    """

    def __init__(self, keys: Tensor, *vectors: Tensor) -> None:
        super().__init__(keys, *vectors)
        self._by_sigmoid = keys.device.type == "cpu"
        self._inner = 2 * keys if self._by_sigmoid else keys
        self._sums: Optional[Tuple[Tensor, Tensor]] = None

    def energies(self, query: Tensor) -> Tensor:
        """Return the energies, (B, K, S)."""
        v = self.vectors[0]
        parts = [self._squash(q, k) @ v for q, k in _parts(query, self._inner)]
        energies = parts[0] if len(parts) == 1 else torch.cat(parts)
        return torch.sub(2 * energies, v.sum()) if self._by_sigmoid else energies

    def backward(self, query: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of *query*, and add to those of the keys and of v."""
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
        """Return the gradients of the keys and of v."""
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


class DotSteps(AttentionSteps):
    """The energies scale x query . keys.

    Args:
        keys: the projected keys, (B, S, A).
        scale: a factor of all energies.
    """

    def __init__(self, keys: Tensor, scale: float) -> None:
        super().__init__(keys)
        self._scale = scale

    def energies(self, query: Tensor) -> Tensor:
        """Return the energies, (B, K, S)."""
        return torch.bmm(self._scale * query, self.keys.transpose(1, 2))

    def backward(self, query: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of *query*."""
        return torch.bmm(self._scale * gradient, self.keys)

    def gradients(self, queries: Tensor, gradients: Tensor) -> Tuple[Tensor, ...]:
        """Return the gradient of the keys: one product for all steps."""
        return (torch.bmm((self._scale * gradients).transpose(1, 2), queries),)


def _parts(query: Tensor, keys: Tensor, *others: Tensor) -> "List[Tuple[Tensor, ...]]":
    """Return parts of the sentences; on a CPU the tanh of a part has at most MAX_CACHED_NUMBERS numbers."""
    sentence_numbers = query.size(1) * keys.size(1) * max(1, query.size(2))
    on_cpu = query.device.type == "cpu"
    size = max(1, MAX_CACHED_NUMBERS // max(1, sentence_numbers)) if on_cpu else max(1, len(query))
    if size >= len(query):
        return [(query, keys, *others)]
    return list(zip(*(tensor.split(size) for tensor in (query, keys, *others))))
