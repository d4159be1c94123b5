"""Keys and values with the matrices of query and output multiplied in, for the search with few sentences.

A step of the search with one sentence waits until the matrices of the model have come from memory.  Attention needs no
W_Q and no W_O in its steps if W_Q^T k and W_O v are computed once for the sentence, since
(W_Q x + b_Q) . k = x . (W_Q^T k) + b_Q . k and W_O sum_j a_j v_j = sum_j a_j (W_O v_j) (DeepSeek-AI, "DeepSeek-V2",
2024, section 2.1.2).  Each head has its own products, so they are H S rows of C numbers.  In a short sentence these are
fewer numbers than the matrices have.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.attention_map import attention_weights_of
from bert_fused_plugin.modules.mapped_attention import Attended, MappedAttention

SMALL_ROWS = 256  # up to here, fewer operations make it faster for matrices of any size (docs/performance.md, "Tried")


class FoldedMemory(NamedTuple):
    """What attention to the states of N sentences reads in each step of the search."""

    keys: Tensor  # the products of keys and W_Q, (N, H S, C)
    biases: Tensor  # those of keys and b_Q, and the mask, (N, 1, H S)
    values: Tensor  # those of values and W_O, (N, H S, C)

    def select(self, sentences: Tensor) -> "FoldedMemory":
        """Return what belongs to *sentences*, in that order."""
        return FoldedMemory(*(tensor.index_select(0, sentences) for tensor in self))


def worth_folding(attention: MappedAttention, keys: Tensor) -> bool:
    """Return whether steps of the search are faster with the matrices of *attention* in its *keys*, (N, H, S, C/H)."""
    sentences, heads, length, _ = keys.shape
    return (
        not torch.is_grad_enabled()
        and keys.device.type == "cpu"
        and keys.dtype in (torch.float32, torch.float64)  # half precision would round once more
        and sentences * heads * length <= max(SMALL_ROWS, attention.embed_dim // 2)
        and type(attention.q_proj) is type(attention.out_proj) is nn.Linear  # somebody may have quantised them
    )


def fold(attention: MappedAttention, keys: Tensor, values: Tensor, mask: Tensor) -> FoldedMemory:
    """Return *keys* and *values*, (N, H, S, C / H), with the matrices of *attention*; *mask* is (N, 1, 1, S)."""
    heads = (attention.num_heads, attention.head_dim)
    to_query, to_out = attention.q_proj.weight.unflatten(0, heads), attention.out_proj.weight.unflatten(1, heads)
    keys = attention.scaling * keys
    biases = torch.einsum("nhsd,hd->nhs", keys, attention.q_proj.bias.unflatten(0, heads)) + mask.squeeze(2)
    return FoldedMemory(
        torch.einsum("nhsd,hdc->nhsc", keys, to_query).flatten(1, 2),
        biases.flatten(1).unsqueeze(1),
        torch.einsum("nhsd,chd->nhsc", values, to_out).flatten(1, 2),
    )


def attend_folded(attention: MappedAttention, query: Tensor, memory: FoldedMemory, need_weights: bool) -> Attended:
    """Return the output, (T, B, C), of *attention* and, if *need_weights*, its weights, (H, B, T, S).

    Args:
        attention: the attention.
        query: the queries, (T, B, C), where B is a multiple of the N sentences of *memory*.
        memory: what the attention reads.
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
