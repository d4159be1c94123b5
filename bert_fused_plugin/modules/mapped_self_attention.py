"""Self-attention with another map than softmax."""

from typing import Any, Dict, Optional

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from bert_fused_plugin.modules.attention_map import build_attention_map
from bert_fused_plugin.modules.cross_attention import Attended


class MappedSelfAttention(MultiheadAttention):
    """fairseq's self-attention, in which a map of `ATTENTION_MAPS` takes the place of softmax.

    fairseq computes the scores, and keeps the keys and values of incremental decoding; the parameters are its own.

    Args:
        embed_dim: C.
        num_heads: H.
        dropout: the dropout rate on attention weights.
        attention_map: the name of the map, which is not softmax.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float, attention_map: str) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, self_attention=True)
        self.attention_map: Any = build_attention_map(attention_map, num_heads)
        self.dropout_module.module_name = MultiheadAttention.__name__  # --retain-dropout-modules asks for it
        self.skip_embed_dim_check = True  # fairseq then computes the scores itself, and not in torch's function

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor],
        value: Optional[Tensor],
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        need_weights: bool = True,
        attn_mask: Optional[Tensor] = None,
    ) -> Attended:
        """Return the attention's output, (T, B, C), and its weights, (H, B, T, S), or None if nobody needs them.

        Args:
            query: the states, (T, B, C).
            key: the same.
            value: the same.
            key_padding_mask: the padding, (B, T).
            incremental_state: the caches, in incremental decoding.
            need_weights: whether to return the weights.
            attn_mask: what is added to the scores, (T, T): -inf for a position that may not be seen.
        """
        scores, values = super().forward(
            query,
            key,
            value,
            key_padding_mask=key_padding_mask,
            incremental_state=incremental_state,
            attn_mask=attn_mask,
            before_softmax=True,
        )
        probabilities = self.attention_map(scores.unflatten(0, (-1, self.num_heads)))  # (B, H, T, S)
        out = torch.bmm(self.dropout_module(probabilities.to(values.dtype)).flatten(0, 1), values)  # (B H, T, C / H)
        out = self.out_proj(out.transpose(0, 1).reshape(query.shape))
        return out, probabilities.transpose(0, 1) if need_weights else None
