"""The residual connection and layer norm around each part of a transformer layer."""

from typing import Callable

from torch import Tensor, nn


def apply_sublayer(
    sublayer: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    norm: nn.Module,
    dropout: nn.Module,
    normalize_before: bool,
) -> Tensor:
    """Return norm(x + dropout(sublayer(x))), or x + dropout(sublayer(norm(x))) if *normalize_before*; (T, B, C)."""
    if normalize_before:
        return x + dropout(sublayer(norm(x)))
    normed: Tensor = norm(x + dropout(sublayer(x)))
    return normed
