"""Translates ``--bert-layer`` into the numbers of BERT's layers."""

from typing import Tuple


def layer_indices(layers: str, depth: int) -> Tuple[int, ...]:
    """Return the numbers of the layers that ``--bert-layer`` names; 0 stands for the embeddings.

    Args:
        layers: one number, which counts from the end if it is negative; ``mix`` for all layers and the embeddings;
            ``random:K`` for the last K layers.
        depth: number of BERT's layers.

    Raises:
        ValueError: There is no such layer; the message gives the rule and the value.
    """
    if layers == "mix":
        return tuple(range(depth + 1))
    if layers.startswith("random:"):
        k = layers[len("random:") :]
        if not (k.isascii() and k.isdigit()) or not 1 <= int(k) <= depth:
            raise ValueError(f"random:K must have K in [1, {depth}], got {layers!r}")
        return tuple(range(depth - int(k) + 1, depth + 1))
    try:
        index = int(layers)
    except ValueError:
        index = depth + 1
    if not -depth - 1 <= index <= depth:
        raise ValueError(
            f"must be in [0, {depth}], or in [-{depth + 1}, -1] from the end, or mix, or random:K, got {layers!r}"
        ) from None
    return (index % (depth + 1),)
