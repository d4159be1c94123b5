"""What the fused layers of the encoder and of the decoder have in common."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Optional, Tuple, Union

from fairseq.modules import FairseqDropout, LayerNorm
from torch import Tensor, nn

from bert_fused_plugin.modules.cross_attention import CrossAttention, Memory, States
from bert_fused_plugin.modules.fusion import FUSION_KINDS, Branch, Fused
from bert_fused_plugin.modules.multihead_attention import SelfAttention


@dataclass(frozen=True)
class LayerOptions:
    """The sizes, rates and choices that both kinds of layers take."""

    embed_dim: int  # C
    ffn_dim: int  # the inner width of the feed-forward network
    num_heads: int  # H
    bert_dim: Optional[int]  # D, or None for a layer that does not attend to BERT
    dropout: float  # after each sub-layer
    attention_dropout: float  # on attention weights
    activation_dropout: float  # inside the feed-forward network
    activation_fn: Callable[[Tensor], Tensor]
    normalize_before: bool  # whether layer norm stands before each sub-layer (pre-norm) instead of after it
    fusion: str = "parallel"  # a key of the table of the fusions
    p_net: float = 0.0  # the rate of drop-net, for a fusion of two branches
    weights: Tuple[float, float] = (0.5, 0.5)  # of the NMT branch and of BERT's branch, for a weighted fusion
    bert_first: bool = True  # whether BERT's sub-layer comes before that of the NMT branch
    identity_start: bool = False  # whether the output of the attention to BERT begins as zero
    attention_map: str = "softmax"  # from scores to weights, in the attentions to the encoder and to BERT
    self_attention_map: str = "softmax"

    def build_self_attention(self) -> SelfAttention:
        """Build the self-attention."""
        return SelfAttention(self.embed_dim, self.num_heads, self.attention_dropout, self.self_attention_map)

    def build_cross_attention(self, dim: int) -> CrossAttention:
        """Build the attention to the states of the encoder or of BERT, which are *dim* wide."""
        return CrossAttention(self.embed_dim, self.num_heads, dim, self.attention_dropout, self.attention_map)


class FusedLayer(nn.Module):
    """What the layers of the encoder and of the decoder have in common.

    A part that a layer of fairseq has too bears the same name, so that its checkpoints fit.  Each of the two layers
    adds its parts in its own order, because random seeds and the states of optimizers depend on the order.
    """

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        name = type(self).__name__  # --retain-dropout-modules asks for it
        self.dropout_module = FairseqDropout(options.dropout, module_name=name)
        self.activation_dropout_module = FairseqDropout(options.activation_dropout, module_name=name)
        self.activation_fn = options.activation_fn
        self.normalize_before = options.normalize_before

    def add_bert_attention(self, options: LayerOptions) -> None:
        """Add the attention to BERT, its layer norm if it is a sub-layer, and the fusion; a part may be None."""
        self.bert_attn: Any = None
        self.bert_attn_layer_norm: Optional[nn.Module] = None
        self.fusion: Any = None
        kind = FUSION_KINDS[options.fusion]
        if options.bert_dim is None or kind.build is None:
            return
        self.bert_attn = options.build_cross_attention(options.bert_dim)
        if options.identity_start:
            nn.init.zeros_(self.bert_attn.out_proj.weight)
            nn.init.zeros_(self.bert_attn.out_proj.bias)
        if kind.is_sublayer:
            self.bert_attn_layer_norm = LayerNorm(options.embed_dim)
        self.fusion = kind.build(options)

    def add_feed_forward(self, options: LayerOptions) -> None:
        """Add the feed-forward network, and its layer norm."""
        self.fc1 = nn.Linear(options.embed_dim, options.ffn_dim)
        self.fc2 = nn.Linear(options.ffn_dim, options.embed_dim)
        self.final_layer_norm = LayerNorm(options.embed_dim)

    def apply_sublayer(
        self, sublayer: Callable[[Tensor], Tuple[Tensor, Any]], x: Tensor, norm: nn.Module
    ) -> Tuple[Tensor, Any]:
        """Return norm(x + dropout(y)), (T, B, C), and the attention weights, where sublayer(x) gives y and the weights.

        In a layer that normalizes before (pre-norm) the result is x + dropout(y), and sublayer(norm(x)) gives y.
        """
        if self.normalize_before:
            out, weights = sublayer(norm(x))
            return x + self.dropout_module(out), weights
        out, weights = sublayer(x)
        return norm(x + self.dropout_module(out)), weights

    def attend_with_bert(
        self, x: Tensor, nmt: Branch, bert_memory: Union[States, Memory, None], need_weights: bool = False
    ) -> Fused:
        """Return the states, (T, B, C), after the NMT attention and that to BERT, and the weights of both.

        The attention to BERT reads *bert_memory*; states are projected only if that attention is computed.
        """
        if self.bert_attn is None:
            x, nmt_weights = self.apply_sublayer(nmt.attend, x, nmt.norm)
            return x, nmt_weights, None
        attend = partial(self.bert_attn, memory=bert_memory, need_weights=need_weights)
        return self.fusion(self.apply_sublayer, x, nmt, Branch(attend, self.bert_attn, self.bert_attn_layer_norm))

    def feed_forward(self, x: Tensor) -> Tensor:
        """Apply the feed-forward network to the states, (T, B, C)."""

        def network(h: Tensor) -> Tuple[Tensor, None]:
            return self.fc2(self.activation_dropout_module(self.activation_fn(self.fc1(h)))), None

        return self.apply_sublayer(network, x, self.final_layer_norm)[0]
