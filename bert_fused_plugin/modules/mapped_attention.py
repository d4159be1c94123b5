"""Multi-head attention whose map from scores to weights can be chosen."""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor

from bert_fused_plugin.modules.attention_map import attention_weights_of, build_attention_map

Attended = Tuple[Tensor, Optional[Tensor]]  # the output of an attention, and its weights if somebody needs them


def attention_mask(padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores so that padding gets no weight, (N, 1, 1, S), for *padding_mask*, (N, S)."""
    mask = torch.zeros(padding_mask.shape, dtype=dtype, device=padding_mask.device)
    return mask.masked_fill_(padding_mask, -torch.inf)[:, None, None]


class MappedAttention(MultiheadAttention):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with a map of `ATTENTION_MAPS`.

    The parameters are those of fairseq's attention, so that checkpoints fit.

    Args:
        embed_dim: C.
        num_heads: H.
        dropout: the dropout rate on attention weights.
        attention_map: the name of the map from scores to weights.
        options: further arguments of fairseq's attention.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float, attention_map: str, **options: Any) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, **options)
        self.dropout_module.module_name = MultiheadAttention.__name__  # --retain-dropout-modules asks for it
        self.attention_map: Any = build_attention_map(attention_map, num_heads)

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Optional[Tensor], need_weights: bool = False
    ) -> Attended:
        """Return the heads' outputs, (N, H, T, C / H), and their weights, (N, H, T, S), or None if nobody needs them.

        Args:
            queries: the queries, (N, H, T, C / H).
            keys: the keys, (N, H, S, C / H).
            values: the values, (N, H, S, C / H).
            mask: what is added to the scores, (N, 1, 1, S), see `attention_mask`; None: all keys are seen.
            need_weights: whether to return the weights.
        """
        if self.attention_map is None and not need_weights:
            return F.scaled_dot_product_attention(queries, keys, values, mask, dropout_p=self._dropout_rate()), None
        scores = torch.matmul(queries * self.scaling, keys.transpose(-1, -2))
        if mask is not None:
            scores = scores + mask
        probabilities = attention_weights_of(self.attention_map, scores)
        out = torch.matmul(self.dropout_module(probabilities.type_as(scores)), values)
        return out, probabilities if need_weights else None

    def _dropout_rate(self) -> float:
        dropout = self.dropout_module
        return dropout.p if self.training or dropout.apply_during_inference else 0.0
