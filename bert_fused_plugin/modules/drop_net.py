"""Drop-net: which of its two branches a layer uses (Zhu et al. 2020, section 4.2)."""

from typing import Tuple

import torch
from torch import nn


class DropNet(nn.Module):
    """Draws whether a layer uses its NMT branch alone, BERT's branch alone, or both.

    In training U ~ uniform[0, 1] is drawn for each layer and batch.  U < p_net / 2 takes the NMT branch alone,
    U > 1 - p_net / 2 takes BERT's branch alone, and any other U takes both.  Evaluation always takes both.

    Args:
        p_net: the paper's p_net, in [0, 1].  (The authors' code takes p_net / 2.)
    """

    def __init__(self, p_net: float) -> None:
        super().__init__()
        self.p_net = p_net

    def forward(self) -> Tuple[bool, bool]:
        """Return whether the NMT branch is taken alone, and whether BERT's branch is."""
        if not self.training or self.p_net == 0:
            return False, False
        # torch's CPU generator gives the same numbers again after a resume, and nothing waits for the GPU
        u = torch.rand(1)
        return bool(u < self.p_net / 2), bool(u > 1 - self.p_net / 2)

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p_net={self.p_net}"
