"""Attention to the states of another encoder, which are projected once for a sentence and all of its beams."""

from typing import NamedTuple, Union

import torch
from torch import Tensor

from bert_fused_plugin.modules.attention_map import attention_weights_of
from bert_fused_plugin.modules.multihead_attention import Attended, MappedAttention
from bert_fused_plugin.modules.weight_layout import is_plain_linear

# sentences x heads x positions, up to which a folded memory makes the steps of the search faster whatever the width:
# measured with 5 beams (benchmarks/TRIED.md)
SMALL_SIZE = 256


class States(NamedTuple):
    """The states of an encoder for N sentences."""

    states: Tensor  # (S, N, D)
    mask: Tensor  # (N, 1, 1, S), see `attention_mask`


class KeysAndValues(NamedTuple):
    """The states of an encoder for N sentences, projected to keys and values."""

    keys: Tensor  # (N, H, S, C / H)
    values: Tensor  # (N, H, S, C / H)
    mask: Tensor  # as of the states


class FoldedMemory(NamedTuple):
    """Keys and values of N sentences with the matrices of query and output multiplied in, for short sentences.

    A step of the search with one sentence waits until the matrices of the model have come from main memory.  Attention
    needs no W_Q and no W_O in its steps if W_Q^T k and W_O v are computed once for the sentence, since
    (W_Q x + b_Q) . k = x . (W_Q^T k) + b_Q . k and W_O sum_j a_j v_j = sum_j a_j (W_O v_j).  (DeepSeek-AI,
    "DeepSeek-V2", 2024, section 2.1.2, has the same identity the other way round: there W_Q and W_O take in the
    matrices of the keys and values.)  Each head has its own products, so they are H S vectors of C numbers, H times the
    memory of keys and values.  They take fewer numbers than W_Q and W_O if H S < C, and pay for themselves after a few
    steps if H S is at most C / 2.
    """

    keys: Tensor  # the scaled keys times W_Q, (N, H S, C)
    biases: Tensor  # the scaled keys times b_Q, plus the mask, (N, 1, H S)
    values: Tensor  # the values times W_O, (N, H S, C)


Memory = Union[KeysAndValues, FoldedMemory]  # what each step of the search reads in place of the states


class CrossAttention(MappedAttention):
    """Multi-head attention to states of width *dim*; the other arguments are those of `MappedAttention`.

    The computation is in two parts: `project` or `project_for_search`, and `forward`.  fairseq's attention projects the
    states again for each beam.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dim: int, dropout: float, attention_map: str = "softmax"
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, attention_map, kdim=dim, vdim=dim)

    def project(self, states: Tensor, mask: Tensor) -> KeysAndValues:
        """Return the keys and values of *states*, (S, N, D), with *mask*, (N, 1, 1, S)."""
        length, sentences, _ = states.shape
        shape = (length, sentences, self.num_heads, self.head_dim)
        keys, values = (proj(states).view(shape).permute(1, 2, 0, 3) for proj in (self.k_proj, self.v_proj))
        return KeysAndValues(keys, values, mask)

    def project_for_search(self, states: Tensor, mask: Tensor) -> Memory:
        """Return what each step of the search reads in place of *states*, (S, N, D), with *mask*, (N, 1, 1, S)."""
        memory = self.project(states, mask)
        return fold(self, *memory) if may_fold(self, memory.keys) else memory

    def forward(self, query: Tensor, memory: Union[States, Memory], need_weights: bool = False) -> Attended:
        """Return the attention's output, (T, B, C), and its weights, (H, B, T, S), or None if nobody needs them.

        Args:
            query: the queries, (T, B, C), where B is a multiple of the N sentences of *memory*: the beams of a sentence
                stand side by side.
            memory: the states that are attended to, projected or not.
            need_weights: whether to return the weights.
        """
        if isinstance(memory, FoldedMemory):
            return attend_folded(self, query, memory, need_weights)
        steps, rows, _ = query.shape
        keys, values, mask = self.project(*memory) if isinstance(memory, States) else memory
        sentences, heads, length, _ = keys.shape
        # the beams of a sentence are further queries of it: (T, B, C) -> (N, H, beams T, C / H)
        by_beam = (steps, sentences, rows // sentences, heads, self.head_dim)
        queries = self.q_proj(query).view(by_beam).permute(1, 3, 2, 0, 4).flatten(2, 3)
        out, weights = self.attend(queries, keys, values, mask, need_weights)
        if weights is not None:
            weights = weights.view(sentences, heads, -1, steps, length).transpose(0, 1).flatten(1, 2)
        out = out.view(sentences, heads, -1, steps, self.head_dim).permute(3, 0, 2, 1, 4)
        return self.out_proj(out.reshape(steps, rows, self.embed_dim)), weights


def may_fold(attention: MappedAttention, keys: Tensor) -> bool:
    """Return whether the matrices of *attention* can be folded into its *keys*, (N, H, S, C / H), and this pays."""
    sentences, heads, length, _ = keys.shape
    return (
        not torch.is_grad_enabled()
        and keys.device.type == "cpu"
        and keys.dtype in (torch.float32, torch.float64)  # half precision would round once more
        and sentences * heads * length <= max(SMALL_SIZE, attention.embed_dim // 2)
        # nobody calls these where the memory is folded
        and all(is_plain_linear(proj) and proj.bias is not None for proj in (attention.q_proj, attention.out_proj))
    )


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
    """Return what *attention* returns for one step; each sentence of *memory* has a position that is no padding."""
    _, rows, width = query.shape
    scores = torch.baddbmm(memory.biases, query.view(len(memory.keys), -1, width), memory.keys.transpose(1, 2))
    by_head = scores.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)  # (N, H, beams, S)
    weights = attention_weights_of(attention.attention_map, by_head)
    dropped = attention.dropout_module(weights.type_as(scores)).transpose(1, 2).flatten(2)
    out = torch.baddbmm(attention.out_proj.bias, dropped, memory.values).view(1, rows, width)
    return out, weights.transpose(0, 1).flatten(1, 2).unsqueeze(2) if need_weights else None
