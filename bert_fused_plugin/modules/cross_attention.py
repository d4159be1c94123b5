"""Attention to the states of another encoder, which are projected once for a sentence and all of its beams."""

from typing import NamedTuple, Union

from torch import Tensor

from bert_fused_plugin.modules.folded_memory import FoldedMemory, attend_folded, fold, may_fold
from bert_fused_plugin.modules.mapped_attention import Attended, MappedAttention, attention_mask


class States(NamedTuple):
    """The states of an encoder for N sentences."""

    states: Tensor  # (S, N, D)
    padding_mask: Tensor  # (N, S)


class KeysAndValues(NamedTuple):
    """The states of an encoder for N sentences, projected to keys and values."""

    keys: Tensor  # (N, H, S, C / H)
    values: Tensor  # (N, H, S, C / H)
    mask: Tensor  # (N, 1, 1, S), see `attention_mask`

    def select(self, sentences: Tensor) -> "KeysAndValues":
        """Return the keys and values of *sentences*, in that order."""
        return KeysAndValues(*(tensor.index_select(0, sentences) for tensor in self))


Memory = Union[KeysAndValues, FoldedMemory]  # what each step of the search reads in place of the states


class CrossAttention(MappedAttention):
    """Multi-head attention to states of any width.

    The computation is in two parts: `project` or `project_for_search`, and `forward`.  fairseq's attention projects the
    states again for each beam.

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
        dims = {"kdim": dim, "vdim": dim}
        super().__init__(embed_dim, num_heads, dropout, attention_map, encoder_decoder_attention=True, **dims)

    def project(self, states: Tensor, padding_mask: Tensor) -> KeysAndValues:
        """Return the keys and values of *states*, (S, N, D), whose padding is *padding_mask*, (N, S)."""
        length, sentences, _ = states.shape
        shape = (length, sentences, self.num_heads, self.head_dim)
        keys, values = (proj(states).view(shape).permute(1, 2, 0, 3) for proj in (self.k_proj, self.v_proj))
        return KeysAndValues(keys, values, attention_mask(padding_mask, keys.dtype))

    def project_for_search(self, states: Tensor, padding_mask: Tensor) -> Memory:
        """Return what each step of the search reads in place of *states*, (S, N, D), with padding (N, S)."""
        memory = self.project(states, padding_mask)
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
