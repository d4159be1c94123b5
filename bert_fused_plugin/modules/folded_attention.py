"""Attention whose matrices of query and output are multiplied into its keys and values, for short sentences on CPUs.

A step of the search with one sentence waits until the matrices of the model have come from main memory.  Attention
needs no W_Q and no W_O in its steps if W_Q^T k and W_O v are computed once for the sentence, since
(W_Q x + b_Q) . k = x . (W_Q^T k) + b_Q . k and W_O sum_j a_j v_j = sum_j a_j (W_O v_j); compare section 2.1.2 of
DeepSeek-AI, "DeepSeek-V2", 2024.  Each head has its own products, so they are H S vectors of C numbers, H times the
memory of keys and values, and pay for themselves after a few steps if H S is at most C / 2.
"""

from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor

from bert_fused_plugin.modules.attention_map import attention_weights_of
from bert_fused_plugin.modules.cross_attention import CrossAttention, KeysAndValues
from bert_fused_plugin.modules.device_choices import is_plain_linear, launches_matter
from bert_fused_plugin.modules.multihead_attention import Attended

# sentences x heads x positions, up to which a folded memory makes the steps of the search faster whatever the width:
# measured with 5 beams (benchmarks/TRIED.md)
SMALL_SIZE = 256


class FoldedMemory(NamedTuple):
    """Keys and values of N sentences with the matrices of query and output multiplied in."""

    keys: Tensor  # the scaled keys times W_Q, (N, H S, C)
    biases: Tensor  # the scaled keys times b_Q, plus the mask, (N, 1, H S)
    values: Tensor  # the values times W_O, (N, H S, C)


Memory = Union[KeysAndValues, FoldedMemory]  # what each step of the search reads


class FoldingAttention(CrossAttention):
    """`CrossAttention` that can fold its matrices into a memory."""

    def fold(self, memory: Optional[KeysAndValues]) -> Optional[Memory]:
        """Return *memory* for the steps of a search: folded, if this pays."""
        return memory if memory is None or not self._may_fold(memory.keys) else self._folded(*memory)

    def forward(self, query: Tensor, memory: Memory, need_weights: bool = False) -> Attended:
        """Return the same as `CrossAttention`; each sentence of a folded memory has a position that is no padding."""
        if not isinstance(memory, FoldedMemory):
            return super().forward(query, memory, need_weights)
        scores = torch.baddbmm(
            memory.biases, query.view(len(memory.keys), -1, self.embed_dim), memory.keys.transpose(1, 2)
        )
        by_head = scores.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (N, H, beams, S)
        weights = attention_weights_of(self.attention_map, by_head)
        dropped = self.dropout_module(weights.type_as(scores)).transpose(1, 2).flatten(2)
        out = torch.baddbmm(self.out_proj.bias, dropped, memory.values).view_as(query)
        return out, weights if need_weights else None

    def _may_fold(self, keys: Tensor) -> bool:
        """Return whether the matrices can be folded into *keys*, (N, H, S, C / H), and this pays."""
        sentences, heads, length, _ = keys.shape
        return (
            not (torch.is_grad_enabled() or launches_matter(keys))
            and keys.dtype in (torch.float32, torch.float64)  # half precision would round once more
            and sentences * heads * length <= max(SMALL_SIZE, self.embed_dim // 2)
            # nobody calls these where the memory is folded
            and all(is_plain_linear(proj) and proj.bias is not None for proj in (self.q_proj, self.out_proj))
        )

    def _folded(self, keys: Tensor, values: Tensor, mask: Tensor) -> FoldedMemory:
        heads = (self.num_heads, self.head_dim)
        to_query, to_out = self.q_proj.weight.unflatten(0, heads), self.out_proj.weight.unflatten(1, heads)
        scaled = self.scaling * keys
        mask = mask.squeeze(2)[..., : keys.size(2)]
        biases = torch.einsum("nhsd,hd->nhs", scaled, self.q_proj.bias.unflatten(0, heads)) + mask
        return FoldedMemory(
            torch.einsum("nhsd,hdc->nhsc", scaled, to_query).flatten(1, 2),
            biases.flatten(1).unsqueeze(1),
            torch.einsum("nhsd,chd->nhsc", values, to_out).flatten(1, 2),
        )
