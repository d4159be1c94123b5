"""Drop-net: which of its two branches a layer uses (Zhu et al. 2020, section 4.2)."""

from typing import Tuple

import torch
from torch import Tensor, nn

_none = torch.zeros(1, dtype=torch.bool)
BOTH = (_none, _none)  # what is drawn if every sentence takes both branches for certain


class DropNet(nn.Module):
    """Draws whether a layer uses its NMT branch alone, BERT's branch alone, or both.

    In training U ~ uniform[0, 1] is drawn.  U < p_net / 2 takes the NMT branch alone, U > 1 - p_net / 2 takes BERT's
    branch alone, and any other U takes both.  Evaluation always takes both.  The paper draws once for each layer and
    batch.  If U is drawn for each sentence, the sentences of a batch are independent of each other.

    Args:
        p_net: the paper's p_net, in [0, 1].  (The authors' code takes p_net / 2.)
        per_sentence: whether U is drawn for each sentence of the batch.
    """

    def __init__(self, p_net: float, per_sentence: bool = False) -> None:
        super().__init__()
        self.p_net = p_net
        self.per_sentence = per_sentence

    def forward(self, batch_size: int) -> Tuple[Tensor, Tensor]:
        """Return which sentences take the NMT branch alone, and which take BERT's branch alone.

        Both tensors are bool and on the CPU: (B,) if each sentence has its own U, or else (1,) for the whole batch.
        Without a draw they are `BOTH`.
        """
        if not self.training or self.p_net == 0:
            return BOTH
        # torch's CPU generator gives the same numbers again after a resume, and nothing waits for the GPU
        u = torch.rand(batch_size if self.per_sentence else 1)
        return u < self.p_net / 2, u > 1 - self.p_net / 2

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p_net={self.p_net}, per_sentence={self.per_sentence}"
