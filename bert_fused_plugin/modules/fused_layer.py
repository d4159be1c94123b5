"""What the fused layers of the encoder and of the decoder have in common.

The parameters belong to the layers themselves, because they bear the names that they have in fairseq's own layers.
Their order belongs to the layers too, because random seeds and the states of optimizers depend on it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Optional, Protocol, Tuple, Union

from fairseq.modules import FairseqDropout, LayerNorm
from torch import Tensor, nn

from bert_fused_plugin.modules.cross_attention import CrossAttention, Memory, States
from bert_fused_plugin.modules.fusion import Branch, Fusion, FusionOptions
from bert_fused_plugin.modules.self_attention import SelfAttention
from bert_fused_plugin.modules.sublayer import TransformerLayer, apply_sublayer


@dataclass(frozen=True)
class LayerOptions:
    """The sizes, rates and choices that both kinds of layers take.

    Args:
        embed_dim: C.
        ffn_dim: the inner width of the feed-forward network.
        num_heads: the number of attention heads.
        bert_dim: D, or None for a layer that does not attend to BERT.
        dropout: the dropout rate after each sub-layer.
        attention_dropout: the dropout rate on attention weights.
        activation_dropout: the dropout rate inside the feed-forward network.
        activation_fn: the non-linearity of the feed-forward network.
        normalize_before: whether layer norm stands before each sub-layer (pre-norm) instead of after it.
        fusion: how the layer joins its NMT attention and its attention to BERT.
        attention_map: the name of the map from scores to weights in the attentions to the encoder and to BERT.
        self_attention_map: the name of the map in self-attention.
    """

    embed_dim: int
    ffn_dim: int
    num_heads: int
    bert_dim: Optional[int]
    dropout: float
    attention_dropout: float
    activation_dropout: float
    activation_fn: Callable[[Tensor], Tensor]
    normalize_before: bool
    fusion: FusionOptions
    attention_map: str = "softmax"
    self_attention_map: str = "softmax"

    def build_self_attention(self) -> SelfAttention:
        """Build the self-attention."""
        return SelfAttention(self.embed_dim, self.num_heads, self.attention_dropout, self.self_attention_map)

    def build_encoder_attention(self, encoder_dim: int) -> CrossAttention:
        """Build the attention to the encoder's states, which are *encoder_dim* wide."""
        return CrossAttention(self.embed_dim, self.num_heads, encoder_dim, self.attention_dropout, self.attention_map)

    def build_bert_attention(self) -> Tuple[Optional[nn.Module], Optional[nn.Module], Optional[Fusion]]:
        """Build the attention to BERT, and its layer norm (for a sub-layer) or the fusion (for two branches)."""
        if self.bert_dim is None:
            return None, None, None
        attention = self.fusion.build_attention(
            self.embed_dim, self.num_heads, self.bert_dim, self.attention_dropout, self.attention_map
        )
        fusion = self.fusion.build(self.embed_dim)
        return attention, LayerNorm(self.embed_dim) if fusion is None else None, fusion

    def build_feed_forward(self) -> Tuple[nn.Linear, nn.Linear, nn.Module]:
        """Build the two linear maps of the feed-forward network, and its layer norm."""
        return (
            nn.Linear(self.embed_dim, self.ffn_dim),
            nn.Linear(self.ffn_dim, self.embed_dim),
            LayerNorm(self.embed_dim),
        )

    def build_dropouts(self, layer: nn.Module) -> Tuple[FairseqDropout, FairseqDropout]:
        """Build the dropout after each sub-layer of *layer*, and that inside its feed-forward network."""
        name = type(layer).__name__  # --retain-dropout-modules asks for it
        return FairseqDropout(self.dropout, module_name=name), FairseqDropout(self.activation_dropout, module_name=name)


class FusedLayer(TransformerLayer, Protocol):
    """What the functions below read of a layer."""

    fusion: Optional[Fusion]  # of a layer with two branches
    bert_attn_layer_norm: Any  # of a layer in which the attention to BERT is a sub-layer
    bert_first: bool
    fc1: nn.Linear
    fc2: nn.Linear
    final_layer_norm: nn.Module
    activation_fn: Callable[[Tensor], Tensor]
    activation_dropout_module: nn.Module


def cross_branch(attention: nn.Module, memory: Union[States, Memory, None], need_weights: bool = False) -> Branch:
    """Return the branch of *attention* to *memory*; the states are projected only if the branch is computed."""
    return Branch(partial(attention, memory=memory, need_weights=need_weights), attention)


def attend_with_bert(
    layer: FusedLayer, x: Tensor, nmt: Branch, nmt_norm: nn.Module, bert: Optional[Branch]
) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """Apply the NMT attention of *layer* and its attention to BERT, as branches of one sub-layer or as two sub-layers.

    Args:
        layer: the layer.
        x: the states, (T, B, C).
        nmt: the NMT attention: self-attention in the encoder, the attention to the encoder in the decoder.
        nmt_norm: the layer norm of the NMT attention, or of both branches.
        bert: the attention to BERT, or None for a layer without it.

    Returns:
        The states, (T, B, C), and the weights of the NMT attention and of the attention to BERT.
    """
    if bert is not None and layer.fusion is not None:
        both = partial(layer.fusion, nmt=nmt, bert=bert)
        x, (nmt_weights, bert_weights) = apply_sublayer(layer, both, x, nmt_norm)
        return x, nmt_weights, bert_weights
    bert_weights = None
    if bert is not None and layer.bert_first:
        x, bert_weights = apply_sublayer(layer, bert.attend, x, layer.bert_attn_layer_norm)
    x, nmt_weights = apply_sublayer(layer, nmt.attend, x, nmt_norm)
    if bert is not None and not layer.bert_first:
        x, bert_weights = apply_sublayer(layer, bert.attend, x, layer.bert_attn_layer_norm)
    return x, nmt_weights, bert_weights


def feed_forward(layer: FusedLayer, x: Tensor) -> Tensor:
    """Apply the feed-forward network of *layer* to its states, (T, B, C)."""

    def network(h: Tensor) -> Tuple[Tensor, None]:
        return layer.fc2(layer.activation_dropout_module(layer.activation_fn(layer.fc1(h)))), None

    return apply_sublayer(layer, network, x, layer.final_layer_norm)[0]
