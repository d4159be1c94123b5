"""Attention to the states of another encoder, which are projected once for a sentence and all of its beams."""

from typing import NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor

from bert_fused_plugin.modules.attention_map import attention_weights_of, build_attention_map

Attended = Tuple[Tensor, Optional[Tensor]]  # the output of an attention, (T, B, C), and its weights


class States(NamedTuple):
    """The states of an encoder for N sentences."""

    states: Tensor  # (S, N, D)
    padding_mask: Tensor  # (N, S)


class KeysAndValues(NamedTuple):
    """The states of an encoder for N sentences, projected to keys and values."""

    keys: Tensor  # (N, H, S, C / H)
    values: Tensor  # (N, H, S, C / H)
    padding_mask: Tensor  # (N, S)

    def select(self, sentences: Tensor) -> "KeysAndValues":
        """Return the keys and values of *sentences*, in that order."""
        return KeysAndValues(*(tensor.index_select(0, sentences) for tensor in self))


class CrossAttention(MultiheadAttention):
    """Multi-head attention to states of any width (Vaswani et al. 2017, section 3.2.2).

    The parameters are those of fairseq's attention, so that checkpoints fit, but the computation is in two parts:
    `project` and `forward`.  fairseq's attention projects the states again for each beam.

    Args:
        embed_dim: C.
        num_heads: H.
        dim: the width of the states.
        dropout: the dropout rate on attention weights.
        attention_map: the name of the map from scores to weights.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dim: int, dropout: float, attention_map: str = "softmax"
    ) -> None:
        super().__init__(embed_dim, num_heads, kdim=dim, vdim=dim, dropout=dropout, encoder_decoder_attention=True)
        self.attention_map = build_attention_map(attention_map, num_heads)

    def project(self, states: Tensor, padding_mask: Tensor) -> KeysAndValues:
        """Return the keys and values of *states*, (S, N, D), whose padding is *padding_mask*, (N, S)."""
        length, sentences, _ = states.shape
        shape = (length, sentences, self.num_heads, self.head_dim)
        keys, values = (proj(states).view(shape).permute(1, 2, 0, 3) for proj in (self.k_proj, self.v_proj))
        return KeysAndValues(keys, values, padding_mask)

    def forward(self, query: Tensor, memory: Union[States, KeysAndValues], need_weights: bool = False) -> Attended:
        """Return the attention's output, (T, B, C), and its weights, (H, B, T, S), or None if nobody needs them.

        Args:
            query: the queries, (T, B, C), where B is a multiple of the N sentences of *memory*: the beams of a sentence
                stand side by side.
            memory: the states that are attended to, projected or not.
            need_weights: whether to return the weights.
        """
        steps, rows, _ = query.shape
        keys, values, padding_mask = self.project(*memory) if isinstance(memory, States) else memory
        sentences, heads, length, _ = keys.shape
        # the beams of a sentence are further queries of it: (T, B, C) -> (N, H, beams T, C / H)
        by_beam = (steps, sentences, rows // sentences, heads, self.head_dim)
        queries = self.q_proj(query).view(by_beam).permute(1, 3, 2, 0, 4).flatten(2, 3)
        mask = padding_mask.view(sentences, 1, 1, length)
        weights = None
        if need_weights or self.attention_map is not None:
            scores = torch.matmul(queries * self.scaling, keys.transpose(-1, -2)).masked_fill(mask, float("-inf"))
            probabilities = attention_weights_of(self.attention_map, scores)
            out = torch.matmul(self.dropout_module(probabilities.type_as(scores)), values)
            if need_weights:
                weights = probabilities.view(sentences, heads, -1, steps, length).transpose(0, 1).flatten(1, 2)
        else:
            out = F.scaled_dot_product_attention(queries, keys, values, ~mask, dropout_p=self._dropout_rate())
        out = out.view(sentences, heads, -1, steps, self.head_dim).permute(3, 0, 2, 1, 4)
        return self.out_proj(out.reshape(steps, rows, self.embed_dim)), weights

    def reorder_incremental_state(self, incremental_state: object, new_order: Tensor) -> None:
        """Do nothing: the decoder, not this module, keeps what the next step needs."""

    def _dropout_rate(self) -> float:
        dropout = self.dropout_module
        return dropout.p if self.training or dropout.apply_during_inference else 0.0
