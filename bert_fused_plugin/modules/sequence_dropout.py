"""Dropout along a sequence: of units, of the same units everywhere, of whole words."""

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn


class SequenceDropout(FairseqDropout):
    """Dropout of units; with *variational* the same units at all positions of a sentence (Gal & Ghahramani 2016).

    In training, and in translation with ``--retain-dropout``.

    Args:
        p: rate.
        variational: draw once for a sentence.
    """

    def __init__(self, p: float, variational: bool = False) -> None:
        super().__init__(p, module_name="SequenceDropout")
        self.variational = variational

    def forward(self, x: Tensor) -> Tensor:
        """Return *x*, (B, T, C), with units set to zero and the others scaled by 1 / (1 - p)."""
        if self.p == 0 or not (self.training or self.apply_during_inference):
            return x
        if not self.variational:
            return nn.functional.dropout(x, self.p)
        return x * nn.functional.dropout(torch.ones_like(x[:, :1]), self.p)

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p={self.p}, variational={self.variational}"


class WordDropout(FairseqDropout):
    """Sets the embeddings of some words to zero, in training, and in translation with ``--retain-dropout``.

    Args:
        p: rate of words.
    """

    def __init__(self, p: float) -> None:
        super().__init__(p, module_name="WordDropout")

    def forward(self, embedded: Tensor) -> Tensor:
        """Return *embedded*, (B, T, C), with some of the T positions zero and the others scaled by 1 / (1 - p)."""
        if self.p == 0 or not (self.training or self.apply_during_inference):
            return embedded
        return embedded * nn.functional.dropout(torch.ones_like(embedded[..., :1]), self.p)

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p={self.p}"
