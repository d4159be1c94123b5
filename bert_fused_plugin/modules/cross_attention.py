"""Attention to the states of another encoder, which are projected once for a sentence and all of its beams."""

from typing import List, NamedTuple, Optional, Sequence

from torch import Tensor

from bert_fused_plugin.modules.device_choices import Together
from bert_fused_plugin.modules.multihead_attention import Attended, MappedAttention


class KeysAndValues(NamedTuple):
    """The states of an encoder for N sentences, projected to keys and values."""

    keys: Tensor  # (N, H, S, C / H)
    values: Tensor  # (N, H, S, C / H)
    mask: Tensor  # an `attention_mask`


class CrossAttention(MappedAttention):
    """Multi-head attention to states of width *dim*; the other arguments are those of `MappedAttention`.

    The states are projected apart, see `project`; fairseq's attention projects them again for each beam.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dim: int, dropout: float, attention_map: str = "softmax"
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, attention_map, kdim=dim, vdim=dim)

    def forward(self, query: Tensor, memory: KeysAndValues, need_weights: bool = False) -> Attended:
        """Return the attention's output, (B, T, C), and its weights, (N, H, beams T, S), or None if nobody needs them.

        The *query* is (B, T, C), where B is a multiple of the N sentences of *memory*, see `project`: the beams of a
        sentence stand side by side.
        """
        keys, values, mask = memory
        # the beams of a sentence are further queries of it: (B, T, C) -> (N, beams T, C)
        queries = self.by_head(self.q_proj(query).view(len(keys), -1, self.embed_dim))
        out, weights = self.attend(queries, keys, values, mask, need_weights)
        return self.out_proj(out.transpose(1, 2).reshape(query.shape)), weights


def project(
    attentions: Sequence[Optional[CrossAttention]], states: Tensor, mask: Tensor
) -> List[Optional[KeysAndValues]]:
    """Return what each of the *attentions* of a model's layers reads of *states*, (N, S, D); None for one that is None.

    The *mask* is an `attention_mask`.
    """
    present = [attention for attention in attentions if attention is not None]
    products = iter(Together(states, *(part for a in present for part in (a.k_proj, a.v_proj)))(states))
    return [
        None if a is None else KeysAndValues(a.by_head(next(products)), a.by_head(next(products)), mask)
        for a in attentions
    ]
