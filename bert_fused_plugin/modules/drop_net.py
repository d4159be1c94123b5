"""Drop-net: which of two branches a layer uses (Zhu et al. 2020, section 4.2)."""

from typing import Tuple

import torch
from torch import nn


class DropNet(nn.Module):
    """Draws the weights of a layer's NMT branch and BERT branch.

    In training U ~ uniform[0, 1] is drawn once a call: U < p_net / 2 gives (1, 0), the NMT branch alone;
    U > 1 - p_net / 2 gives (0, 1), BERT's branch alone; anything else, and evaluation always, *weights*.

    Args:
        p_net: the paper's p_net, in [0, 1].  (The authors' code takes p_net / 2.)
        weights: of (other, BERT) where both are used; the paper's are (1/2, 1/2).
    """

    def __init__(self, p_net: float, weights: Tuple[float, float] = (0.5, 0.5)) -> None:
        super().__init__()
        self.p_net = p_net
        self.weights = weights

    def forward(self) -> Tuple[float, float]:
        """Return the weights (other, BERT)."""
        if self.training and self.p_net > 0:
            # torch's CPU generator: reproducible, resumable, and no wait for the GPU
            u = torch.rand(()).item()
            if u < self.p_net / 2:
                return 1.0, 0.0
            if u > 1 - self.p_net / 2:
                return 0.0, 1.0
        return self.weights

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p_net={self.p_net}, weights={self.weights}"
