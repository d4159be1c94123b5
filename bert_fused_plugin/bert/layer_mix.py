"""One state of each word piece, made from those of several layers of BERT (``--bert-layer mix`` and ``random:K``)."""

from typing import Optional

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """gamma * sum_j softmax(w)_j h_j over *num_layers* layers, all learned (Peters et al., NAACL 2018, equation 1)."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(num_layers))
        self.gamma = nn.Parameter(torch.ones(1))

    def forward(self, states: Tensor) -> Tensor:
        """Return the mixture, (B, L, D), of *states*, (B, L, N, D)."""
        weights = torch.softmax(self.w.float(), dim=0).to(states.dtype)
        return self.gamma.to(states.dtype) * torch.einsum("n,blnd->bld", weights, states)


class RandomLayer(nn.Module):
    """One layer, which is drawn for each batch, in training; the mean of all layers in evaluation.

    This is the stochastic layer selection of BiBERT (Xu et al., EMNLP 2021); the mean is its expectation.
    """

    def forward(self, states: Tensor) -> Tensor:
        """Return one layer's states or the mean, (B, L, D), of *states*, (B, L, N, D)."""
        if self.training:
            return states[:, :, int(torch.randint(states.size(2), ()))]
        return states.mean(dim=2)


def build_layer_mix(layers: str, count: int) -> Optional[nn.Module]:
    """Return what combines the states of the *count* layers that ``--bert-layer`` names; None for a single layer."""
    if layers == "mix":
        return ScalarMix(count)
    return RandomLayer() if count > 1 else None
