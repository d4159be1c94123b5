"""Folded memories: keys and values with the matrices of query and output multiplied in, for short sentences.

A step of the search with one sentence waits until the matrices of the model have come from main memory.  Attention
needs no W_Q and no W_O in its steps if W_Q^T k and W_O v are computed once for the sentence, since
(W_Q x + b_Q) . k = x . (W_Q^T k) + b_Q . k and W_O sum_j a_j v_j = sum_j a_j (W_O v_j).  (DeepSeek-AI, "DeepSeek-V2",
2024, section 2.1.2, has the same identity the other way round: there W_Q and W_O take in the matrices of the keys and
values.)  Each head has its own products, so they are H S vectors of C numbers.  They take fewer numbers than W_Q and
W_O if H S < C, and pay for themselves after a few steps if H S is at most C / 2.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.attention_map import attention_weights_of
from bert_fused_plugin.modules.mapped_attention import Attended, MappedAttention
from bert_fused_plugin.modules.plain_linear import is_plain_linear

# sentences x heads x positions, up to which fewer operations make the steps faster whatever the width: measured with
# 5 beams (docs/performance.md, "Tried")
SMALL_SIZE = 256


class FoldedMemory(NamedTuple):
    """What attention to the states of N sentences reads in each step of the search.

    It takes H times the memory of keys and values.
    """

    keys: Tensor  # the scaled keys times W_Q, (N, H S, C)
    biases: Tensor  # the scaled keys times b_Q, plus the mask, (N, 1, H S)
    values: Tensor  # the values times W_O, (N, H S, C)

    def select(self, sentences: Tensor) -> "FoldedMemory":
        """Return what belongs to *sentences*, in that order."""
        return FoldedMemory(*(tensor.index_select(0, sentences) for tensor in self))


def may_fold(attention: MappedAttention, keys: Tensor) -> bool:
    """Return whether the matrices of *attention* can be folded into its *keys*, (N, H, S, C / H), and this pays."""
    sentences, heads, length, _ = keys.shape
    return (
        not torch.is_grad_enabled()
        and keys.device.type == "cpu"
        and keys.dtype in (torch.float32, torch.float64)  # half precision would round once more
        and sentences * heads * length <= max(SMALL_SIZE, attention.embed_dim // 2)
        and _has_bias(attention.q_proj)
        and _has_bias(attention.out_proj)
    )


def _has_bias(projection: nn.Module) -> bool:
    """Return whether *projection* is W x + b; where the memory is folded, nobody calls it."""
    return is_plain_linear(projection) and projection.bias is not None


def fold(attention: MappedAttention, keys: Tensor, values: Tensor, mask: Tensor) -> FoldedMemory:
    """Return the folded memory of *keys* and *values*, (N, H, S, C / H), with *mask*, (N, 1, 1, S)."""
    heads = (attention.num_heads, attention.head_dim)
    to_query, to_out = attention.q_proj.weight.unflatten(0, heads), attention.out_proj.weight.unflatten(1, heads)
    scaled = attention.scaling * keys
    biases = torch.einsum("nhsd,hd->nhs", scaled, attention.q_proj.bias.unflatten(0, heads)) + mask.squeeze(2)
    return FoldedMemory(
        torch.einsum("nhsd,hdc->nhsc", scaled, to_query).flatten(1, 2),
        biases.flatten(1).unsqueeze(1),
        torch.einsum("nhsd,chd->nhsc", values, to_out).flatten(1, 2),
    )


def attend_folded(attention: MappedAttention, query: Tensor, memory: FoldedMemory, need_weights: bool) -> Attended:
    """Return the output, (T, B, C), of *attention* and, if *need_weights*, its weights, (H, B, T, S).

    Args:
        attention: the attention.
        query: the queries, (T, B, C), where B is a multiple of the N sentences of *memory*.
        memory: what the attention reads; each of its sentences has a position that is no padding.
        need_weights: whether to return the weights.
    """
    steps, rows, width = query.shape
    sentences, beams = len(memory.keys), rows // len(memory.keys)
    queries = query.view(steps, sentences, beams, width).transpose(0, 1).flatten(1, 2)
    scores = torch.baddbmm(memory.biases, queries, memory.keys.transpose(1, 2))
    by_head = scores.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)  # (N, H, T beams, S)
    weights = attention_weights_of(attention.attention_map, by_head)
    dropped = attention.dropout_module(weights.type_as(scores)).transpose(1, 2).flatten(2)
    out = torch.baddbmm(attention.out_proj.bias, dropped, memory.values)
    out = out.view(sentences, steps, beams, width).transpose(0, 1).reshape(steps, rows, width)
    if not need_weights:
        return out, None
    by_step = weights.unflatten(2, (steps, beams))  # (N, H, T, beams, S)
    return out, by_step.permute(1, 0, 3, 2, 4).flatten(1, 2)
