"""Drop-net: which of two branches a layer uses (Zhu et al. 2020, section 4.2)."""

from typing import Tuple

import torch
from torch import Tensor, nn


class DropNet(nn.Module):
    """Draws whether a layer uses its NMT branch alone, BERT's branch alone, or both.

    In training U ~ uniform[0, 1] is drawn: U < p_net / 2 takes the NMT branch alone, U > 1 - p_net / 2 BERT's
    branch alone, anything else both; evaluation always takes both.  The paper draws once for a layer and a
    batch; drawn for each sentence, neighbours in the batch are independent.

    Args:
        p_net: the paper's p_net, in [0, 1].  (The authors' code takes p_net / 2.)
        per_sentence: draw for each sentence of the batch.
    """

    def __init__(self, p_net: float, per_sentence: bool = False) -> None:
        super().__init__()
        self.p_net = p_net
        self.per_sentence = per_sentence

    def forward(self, batch_size: int) -> Tuple[Tensor, Tensor]:
        """Return who takes the NMT branch alone, and who BERT's: bool, on the CPU, (B,) or (1,) for the whole batch."""
        if not self.training or self.p_net == 0:
            nobody = torch.zeros(1, dtype=torch.bool)
            return nobody, nobody
        # torch's CPU generator: reproducible, resumable, and no wait for the GPU
        u = torch.rand(batch_size if self.per_sentence else 1)
        return u < self.p_net / 2, u > 1 - self.p_net / 2

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p_net={self.p_net}, per_sentence={self.per_sentence}"
