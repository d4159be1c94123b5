"""Multi-head attention whose map from scores to weights can be chosen, and self-attention."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor

from bert_fused_plugin.modules.attention_map import attention_weights_of, build_attention_map
from bert_fused_plugin.modules.device_choices import Together

Attended = Tuple[Tensor, Optional[Tensor]]  # the output of an attention, and its weights if somebody needs them

_ALIGNED = 8  # numbers: CUDA's kernels read masks whose rows begin at multiples of it, and torch would copy any other


def attention_mask(padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores so that padding gets no weight, for *padding_mask*, (N, S).

    It is (N, 1, 1, at least S), so that a copy of some of its rows is aligned, too.  `MappedAttention.attend` leaves
    out the columns beyond S.
    """
    rows, length = padding_mask.shape
    width = -(-length // _ALIGNED) * _ALIGNED
    mask = torch.zeros(rows, 1, 1, width, dtype=dtype, device=padding_mask.device)
    mask[..., :length].masked_fill_(padding_mask[:, None, None], -torch.inf)
    return mask


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

    def by_head(self, states: Tensor) -> Tensor:
        """Return *states*, (..., S, C), as (..., H, S, C / H)."""
        return states.unflatten(-1, (self.num_heads, self.head_dim)).transpose(-3, -2)

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Optional[Tensor],
        need_weights: bool = False,
        is_causal: bool = False,
    ) -> Attended:
        """Return the heads' outputs, (N, H, T, C / H), and their weights, (N, H, T, S), or None if nobody needs them.

        Args:
            queries: (N, H, T, C / H).
            keys, values: (N, H, S, C / H).
            mask: what is added to the scores, such as an `attention_mask`.
            need_weights: whether to return the weights, which torch's fused attention does not give.
            is_causal: whether query t sees only the keys 1 to t; then there is no *mask*.
        """
        if mask is not None:
            mask = mask.type_as(queries)[..., : keys.size(-2)]  # under autocast the types differ
        if self.attention_map is None and not need_weights:
            is_dropping = self.training or self.dropout_module.apply_during_inference
            rate = self.dropout_module.p if is_dropping else 0.0
            return F.scaled_dot_product_attention(queries, keys, values, mask, rate, is_causal), None
        scores = torch.matmul(queries * self.scaling, keys.transpose(-1, -2))
        if is_causal:
            mask = torch.full_like(scores[0, 0], -torch.inf).triu(1)
        if mask is not None:
            scores = scores + mask
        probabilities = attention_weights_of(self.attention_map, scores)
        out = torch.matmul(self.dropout_module(probabilities.type_as(scores)), values)
        return out, probabilities if need_weights else None


class Positions(NamedTuple):
    """What self-attention sees of its own sequence."""

    mask: Optional[Tensor] = None  # of the padding, see `attention_mask`
    is_causal: bool = False  # whether a position sees only itself and those before it
    incremental_state: Optional[Dict[str, Any]] = None  # fairseq's, of a search: x is the position after those in it


class SelfAttention(MappedAttention):
    """fairseq's self-attention with a choice of map; the arguments are those of `MappedAttention`."""

    def forward(self, x: Tensor, memory: Positions, need_weights: bool = False) -> Attended:
        """Return the attention's output, (B, T, C), for the states *x*, (B, T, C), and its weights, (B, H, T, T)."""
        if memory.incremental_state is None:
            query, key, value = map(self.by_head, Together(x, self.q_proj, self.k_proj, self.v_proj)(x))
        else:
            query, key, value = self._with_previous(x, memory.incremental_state)
        out, weights = self.attend(query, key, value, memory.mask, need_weights, memory.is_causal)
        return self.out_proj(out.transpose(1, 2).reshape(x.shape)), weights

    def _with_previous(self, x: Tensor, incremental_state: Dict[str, Any]) -> Tuple[Tensor, Tensor, Tensor]:
        cache: Dict[str, Any] = self._get_input_buffer(incremental_state)
        project = cache.get("project") or Together(x, self.q_proj, self.k_proj, self.v_proj)
        products = self.by_head(project.stacked(x))  # (3, B, H, 1, C / H)
        query, states = products[0], products[1:]
        if cache:
            states = torch.cat([cache["states"], states], dim=3)
        cache = {"project": project, "states": states}
        self._set_input_buffer(incremental_state, cache)
        return query, states[0], states[1]

    def reorder_incremental_state(self, incremental_state: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
        """Put the rows of the keys and values so far into *new_order*; fairseq's hook."""
        cache: Dict[str, Any] = self._get_input_buffer(incremental_state)
        if cache:
            cache["states"] = cache["states"].index_select(1, new_order)
        return incremental_state
