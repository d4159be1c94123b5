"""The residual connection and layer norm around each part of a transformer layer."""

from typing import Callable, Protocol, Tuple, TypeVar

from torch import Tensor, nn

Weights = TypeVar("Weights")


class TransformerLayer(Protocol):
    """What `apply_sublayer` reads of a layer."""

    dropout_module: nn.Module
    normalize_before: bool


def apply_sublayer(
    layer: TransformerLayer, sublayer: Callable[[Tensor], Tuple[Tensor, Weights]], x: Tensor, norm: nn.Module
) -> Tuple[Tensor, Weights]:
    """Return norm(x + dropout(y)), (T, B, C), and the attention weights, where sublayer(x) gives y and the weights.

    In a layer that normalizes before (pre-norm) the result is x + dropout(y), and sublayer(norm(x)) gives y.
    """
    if layer.normalize_before:
        out, weights = sublayer(norm(x))
        return x + layer.dropout_module(out), weights
    out, weights = sublayer(x)
    return norm(x + layer.dropout_module(out)), weights
