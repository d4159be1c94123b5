"""Dropout for sequences: of single units, of the same units at all positions, or of whole words."""

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn


class SequenceDropout(FairseqDropout):
    """Dropout of units; variational dropout drops the same units at all positions (Gal & Ghahramani 2016).

    It works in training, and in translation with ``--retain-dropout``.

    Args:
        p: the rate of units.
        variational: whether the units are drawn once for a sentence instead of at each position.
    """

    def __init__(self, p: float, variational: bool = False) -> None:
        super().__init__(p, module_name="SequenceDropout")
        self.variational = variational

    def forward(self, x: Tensor) -> Tensor:
        """Return *x*, (B, T, C), with some units set to zero and the others scaled by 1 / (1 - p)."""
        if self.p == 0 or not (self.training or self.apply_during_inference):
            return x
        if not self.variational:
            return nn.functional.dropout(x, self.p)
        return x * nn.functional.dropout(torch.ones_like(x[:, :1]), self.p)

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p={self.p}, variational={self.variational}"


class WordDropout(FairseqDropout):
    """Dropout of whole words: the embeddings of some words become zero.

    It works in training, and in translation with ``--retain-dropout``.

    Args:
        p: the rate of words.
    """

    def __init__(self, p: float) -> None:
        super().__init__(p, module_name="WordDropout")

    def forward(self, embedded: Tensor) -> Tensor:
        """Return *embedded*, (B, T, C), with some positions set to zero and the others scaled by 1 / (1 - p)."""
        if self.p == 0 or not (self.training or self.apply_during_inference):
            return embedded
        return embedded * nn.functional.dropout(torch.ones_like(embedded[..., :1]), self.p)

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p={self.p}"
