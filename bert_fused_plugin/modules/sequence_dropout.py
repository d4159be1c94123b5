"""Dropout along a sequence: of units, of the same units everywhere, of whole words."""

import torch
from torch import Tensor, nn


class SequenceDropout(nn.Module):
    """Dropout of units; with *variational* the same units at all positions of a sentence (Gal & Ghahramani 2016).

    Args:
        p: rate.
        variational: draw once for a sentence.
    """

    def __init__(self, p: float, variational: bool = False) -> None:
        super().__init__()
        self.p = p
        self.variational = variational

    def forward(self, x: Tensor) -> Tensor:
        """Return *x*, (B, T, C), with units set to zero and the others scaled by 1 / (1 - p), in training."""
        if not self.training or self.p == 0:
            return x
        if not self.variational:
            return nn.functional.dropout(x, self.p)
        return x * nn.functional.dropout(torch.ones_like(x[:, :1]), self.p)

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p={self.p}, variational={self.variational}"


class WordDropout(nn.Module):
    """Sets the embeddings of some words to zero, in training.

    Args:
        p: rate of words.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, embedded: Tensor) -> Tensor:
        """Return *embedded*, (B, T, C), with some of the T positions zero and the others scaled by 1 / (1 - p)."""
        if not self.training or self.p == 0:
            return embedded
        return embedded * nn.functional.dropout(torch.ones_like(embedded[..., :1]), self.p)

    def extra_repr(self) -> str:
        """Show the rate where a module is printed."""
        return f"p={self.p}"
