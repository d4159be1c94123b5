"""Multi-head attention whose map from scores to weights can be chosen, and self-attention."""

from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor

from bert_fused_plugin.modules.attention_map import attention_weights_of, build_attention_map

Attended = Tuple[Tensor, Optional[Tensor]]  # the output of an attention, and its weights if somebody needs them


def attention_mask(padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores so that padding gets no weight, (N, 1, 1, S), for *padding_mask*, (N, S).

    Encoder and decoder make it once, for all of their layers.
    """
    mask = torch.zeros_like(padding_mask, dtype=dtype)
    return mask.masked_fill_(padding_mask, -torch.inf)[:, None, None]


class MappedAttention(MultiheadAttention):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with any of the attention maps.

    The parameters are those of fairseq's attention, so that checkpoints fit.  The *embed_dim* is C, *num_heads* is H,
    and *dropout* is the rate on attention weights.  The *options* are further arguments of fairseq's attention.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float, attention_map: str = "softmax", **options: Any
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, **options)
        self.dropout_module.module_name = MultiheadAttention.__name__  # --retain-dropout-modules asks for it
        self.attention_map: Any = build_attention_map(attention_map, num_heads)

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Optional[Tensor], need_weights: bool = False
    ) -> Attended:
        """Return the heads' outputs, (N, H, T, C / H), and their weights, (N, H, T, S), or None if nobody needs them.

        Args:
            queries: (N, H, T, C / H).
            keys, values: (N, H, S, C / H).
            mask: what is added to the scores, such as an `attention_mask`; None: all keys are seen.
            need_weights: whether to return the weights, which torch's fused attention does not give.
        """
        mask = None if mask is None else mask.type_as(queries)  # under autocast the types differ
        if self.attention_map is None and not need_weights:
            is_dropping = self.training or self.dropout_module.apply_during_inference
            rate = self.dropout_module.p if is_dropping else 0.0
            return F.scaled_dot_product_attention(queries, keys, values, mask, dropout_p=rate), None
        scores = torch.matmul(queries * self.scaling, keys.transpose(-1, -2))
        if mask is not None:
            scores = scores + mask
        probabilities = attention_weights_of(self.attention_map, scores)
        out = torch.matmul(self.dropout_module(probabilities.type_as(scores)), values)
        return out, probabilities if need_weights else None


class SelfAttention(MappedAttention):
    """fairseq's self-attention with a choice of map; the arguments are those of `MappedAttention`.

    A step of the search takes fewer operations than fairseq's: there is no mask, and torch's fused attention takes the
    keys and values of the positions so far as they are kept.
    """

    def forward(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        """Return the output, (T, B, C), of *x*, (T, B, C); *mask* is added to the scores, (B, H, T, T)."""
        projected = (proj(x).unflatten(-1, (self.num_heads, -1)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        query, key, value = (states.permute(1, 2, 0, 3) for states in projected)  # (B, H, T, C / H)
        out, _ = self.attend(query, key, value, mask)
        return self.out_proj(out.permute(2, 0, 1, 3).reshape(x.shape))

    def step(self, x: Tensor, incremental_state: Dict[str, Any]) -> Tensor:
        """Return the output, (1, B, C), for the states *x* of the next position; its key and value are kept, too."""
        rows = x.size(1)
        by_head = (rows, self.num_heads, 1, self.head_dim)
        query, key, value = (proj(x).view(by_head) for proj in (self.q_proj, self.k_proj, self.v_proj))
        before = self._get_input_buffer(incremental_state)
        if before:
            key, value = torch.cat([before["keys"], key], dim=2), torch.cat([before["values"], value], dim=2)
        self._set_input_buffer(incremental_state, {"keys": key, "values": value})
        out, _ = self.attend(query, key, value, None)
        return self.out_proj(out.reshape(1, rows, self.embed_dim))
