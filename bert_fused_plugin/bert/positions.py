"""Counts the positions that a pre-trained encoder can read."""

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_NO_LIMIT = 1_000_000  # for encoders with relative positions


def count_positions(model: "PreTrainedModel") -> int:
    """Return the largest number of tokens for which *model* has position embeddings."""
    config = model.config.to_dict()
    limit = int(config.get("max_position_embeddings") or config.get("n_positions") or _NO_LIMIT)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its relatives count positions from the padding id + 1, and Nystromformer has two more rows.
            return min(limit, module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
    return limit
