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
    On a CPU it is computed for some sentences at a time, so that its numbers stay in the cache while they are used.
    """

    def __init__(self, keys: Tensor, *vectors: Tensor) -> None:
        super().__init__(keys, *vectors)
        self._sums: Optional[Tuple[Tensor, Tensor]] = None

    def energies(self, query: Tensor) -> Tensor:
        """Return the energies, (B, K, S)."""
        parts = [_tanh(q, k) @ self.vectors[0] for q, k in _parts(query, self.keys)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def backward(self, query: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of *query*, and add to those of the keys and of v."""
        to_query, v = torch.empty_like(query), self.vectors[0]
        if self._sums is None:
            self._sums = torch.zeros_like(self.keys), torch.zeros_like(v)
        to_keys, to_v = self._sums
        for q, k, to_q, to_k, to_energies in _parts(query, self.keys, to_query, to_keys, gradient):
            hidden = _tanh(q, k)
            to_v += to_energies.flatten() @ hidden.flatten(0, 2)
            inside = torch.addcmul(v, hidden.square_(), v, value=-1, out=hidden).mul_(to_energies.unsqueeze(-1))
            torch.sum(inside, dim=2, out=to_q)
            to_k += inside.sum(dim=1) if inside.size(1) > 1 else inside.squeeze(1)
        return to_query

    def gradients(self, queries: Tensor, gradients: Tensor) -> Tuple[Tensor, ...]:
        """Return the gradients of the keys and of v."""
        assert self._sums is not None
        sums, self._sums = self._sums, None
        return sums


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


def _tanh(query: Tensor, keys: Tensor) -> Tensor:
    """Return tanh(query + keys), (B, K, S, A).

    On a CPU it is computed as 2 sigmoid(2x) - 1, because torch's sigmoid is about five times as fast as its tanh there.
    """
    if query.device.type != "cpu":
        return (query.unsqueeze(2) + keys.unsqueeze(1)).tanh_()
    return ((2 * query).unsqueeze(2) + (2 * keys).unsqueeze(1)).sigmoid_().mul_(2).sub_(1)


def _parts(query: Tensor, keys: Tensor, *others: Tensor) -> "List[Tuple[Tensor, ...]]":
    """Return parts of the sentences; on a CPU the tanh of a part has at most MAX_CACHED_NUMBERS numbers."""
    sentence_numbers = query.size(1) * keys.size(1) * max(1, query.size(2))
    on_cpu = query.device.type == "cpu"
    size = max(1, MAX_CACHED_NUMBERS // max(1, sentence_numbers)) if on_cpu else max(1, len(query))
    if size >= len(query):
        return [(query, keys, *others)]
    return list(zip(*(tensor.split(size) for tensor in (query, keys, *others))))
