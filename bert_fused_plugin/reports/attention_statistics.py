"""How even and how sparse attention is, and how far gates open: means over all positions of any number of batches."""

from collections import defaultdict
from typing import Any, Callable, DefaultDict, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from bert_fused_plugin.reports.attention import SOURCE, previous_tokens, read_attention, recorded_gates

TOO_EVEN = 0.95  # a share of the largest entropy; at 20 positions, one may then get a fifth, and the others 1/24 each


class Entropy(NamedTuple):
    """The mean entropy of the attention at a target position, in bits, and as a share of the largest possible one."""

    bits: float
    share: float


class Sparsity(NamedTuple):
    """The means over target positions, for each head of a layer."""

    zeros: List[float]  # the share of the symbols that may be attended to whose weight is exactly zero
    attended: List[float]  # the number of symbols whose weight is not zero


class AttentionStatistics:
    """The statistics of the batches that were added; a layer without an attention has None in the place of them."""

    def __init__(self) -> None:
        self._depths: Dict[str, int] = {}  # numbers of layers, by kind of attention
        self._sums: DefaultDict[Tuple[Any, ...], Any] = defaultdict(int)  # the last of each is the number of summands
        self._gates: DefaultDict[str, Any] = defaultdict(int)

    def add(self, model: Any, net_input: Dict[str, Any], translations: Sequence[Tensor]) -> None:
        """Add a batch and its *translations*, which *model* reads."""
        with recorded_gates(model) as gates:
            read = read_attention(model, net_input, translations)
        pad = model.decoder.dictionary.pad()
        written, kept = previous_tokens(translations, pad).ne(pad), net_input["src_tokens"].ne(pad)
        for kind, found in read.items():
            self._depths[kind] = len(found.layers)
            for number, (layer, heads) in enumerate(zip(found.layers, found.heads)):
                if layer is None or heads is None:
                    continue
                self._sums["entropy", kind, number] += _entropy_sums(layer, found.sizes, written)
                self._sums["sparsity", kind, number] += _sparsity_sums(heads, found.sizes, written)
        for name, gate in gates.items():
            mask = (kept if name.startswith("encoder") else written).t()
            self._gates[name] += _masked_sums([*gate, torch.ones_like(gate[0])], mask)

    def entropies(self) -> Dict[str, List[Optional[Entropy]]]:
        """Return the entropy of each layer, by kind of attention."""
        return {kind: self._layers("entropy", kind, Entropy) for kind in self._depths}

    def sparsity(self) -> Dict[str, List[Optional[Sparsity]]]:
        """Return the sparsity of each layer, by kind of attention."""
        return {kind: self._layers("sparsity", kind, Sparsity) for kind in self._depths}

    def gates(self) -> Dict[str, Dict[str, float]]:
        """Return mean and standard deviation of g, BERT's share, of each gated layer."""
        means = {name: _means(sums) for name, sums in self._gates.items()}
        return {
            name: {"mean": mean, "deviation": max(0.0, square - mean**2) ** 0.5}
            for name, (mean, square) in means.items()
        }

    def _layers(self, what: str, kind: str, made_of: Callable[..., Any]) -> List[Any]:
        keys = [(what, kind, number) for number in range(self._depths.get(kind, 0))]
        return [made_of(*_means(self._sums[key])) if key in self._sums else None for key in keys]


def entropy(weights: Tensor) -> Tensor:
    """Return the entropy of *weights*, (..., S), in bits."""
    return torch.special.entr(weights.float()).sum(dim=-1) / torch.log(torch.tensor(2.0))


def mean_entropy(weights: Tensor, sizes: Tensor, written: Tensor) -> Entropy:
    """Return the mean over all *written* positions; for the arguments see `_entropy_sums`."""
    return Entropy(*_means(_entropy_sums(weights, sizes, written)))


def evenness(kind: str, layers: Sequence[Optional[Entropy]]) -> Optional[str]:
    """Return a warning if the entropies of some *layers* are near the largest possible; None if they are not."""
    even = {number: layer.share for number, layer in enumerate(layers, 1) if layer and layer.share >= TOO_EVEN}
    if not even:
        return None
    where = f" in decoder layer{'s' * (len(even) > 1)} {', '.join(map(str, even))}" if len(layers) > 1 else ""
    return (
        f"The attention to {'the source' if kind == SOURCE else 'BERT'}{where} is so even that its maps and alignments "
        f"mean nothing: its entropy is {min(even.values()):.0%} of the largest possible, and {TOO_EVEN:.0%} or more "
        "says that all positions get nearly the same."
    )


def _entropy_sums(weights: Tensor, sizes: Tensor, written: Tensor) -> Tensor:
    """Return the sums over all *written* positions, (B, T), of their entropies, of these as shares, and of ones, (3,).

    *weights*, (B, T, S), are the means of the heads; *sizes*, (B), the numbers of symbols that may be attended to.
    """
    bits, most = entropy(weights), sizes.clamp(min=2).log2().unsqueeze(1)
    return _masked_sums([bits, bits / most, torch.ones_like(bits)], written)


def _sparsity_sums(weights: Tensor, sizes: Tensor, written: Tensor) -> Tensor:
    """Return the sums over all *written* positions of what `Sparsity` has the means of, and of ones, (3, H).

    *weights* are those of each head, (H, B, T, S); for the other arguments see `_entropy_sums`.
    """
    attended, most = weights.gt(0).sum(dim=-1).float(), sizes.clamp(min=1).view(1, -1, 1)
    return _masked_sums([1 - attended / most, attended, torch.ones_like(attended)], written)


def _masked_sums(values: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Return the sum of each of *values*, (..., B, T), over the positions in *mask*, (B, T)."""
    return torch.stack(list(values)).cpu().double().masked_fill(~mask.cpu(), 0).sum(dim=(-2, -1))


def _means(sums: Tensor) -> List[Any]:
    return (sums[:-1] / sums[-1]).tolist()
