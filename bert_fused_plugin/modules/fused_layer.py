"""The BERT-fused layers (Zhu et al. 2020, figure 1): a transformer's layers, in which an attention also reads BERT."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

from fairseq.modules import FairseqDropout, LayerNorm
from torch import Tensor, nn

from bert_fused_plugin.modules.drop_net import DropNet
from bert_fused_plugin.modules.folded_attention import FoldingAttention, Memory
from bert_fused_plugin.modules.fusion import FUSION_KINDS
from bert_fused_plugin.modules.multihead_attention import Positions, SelfAttention
from bert_fused_plugin.modules.zero_gradients import with_zero_gradients

# the states, the weights of the NMT branch, and those of BERT's branch; None where nobody needs them
Fused = Tuple[Tensor, Optional[Tensor], Optional[Tensor]]
Needed = Tuple[bool, bool]  # whether somebody needs those of the NMT branch, and those of BERT's

# fairseq 0.12's layer registers these copies of q_proj, k_proj, ... for a fused kernel
_SAVED_TWICE = tuple(f"{part}_{kind}" for part in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias"))
_RENAMED = {
    "layer_norms.0.": "self_attn_layer_norm.",  # of fairseq 0.6
    "layer_norms.1.": "final_layer_norm.",
    "fusion.mix.": "mix.",  # of version 1.0
}


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
    bert_first: bool = True  # stacked: whether BERT's sub-layer comes before that of the NMT branch
    identity_start: bool = False  # whether the output of the attention to BERT is initialised to zero
    attention_map: str = "softmax"  # from scores to weights, in the attentions to the encoder and to BERT
    self_attention_map: str = "softmax"


class FusedLayer(nn.Module):
    """What the layers of the encoder and of the decoder have in common.

    Parts have the names of fairseq's, so that its checkpoints fit.  Each of the two layers adds its parts in its own
    order, because random seeds and the states of optimizers depend on the order.
    """

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        name = type(self).__name__  # --retain-dropout-modules asks for it
        self.options = options
        self.dropout_module = FairseqDropout(options.dropout, module_name=name)
        self.activation_dropout_module = FairseqDropout(options.activation_dropout, module_name=name)
        heads, rate = options.num_heads, options.attention_dropout
        self.self_attn: Any = SelfAttention(options.embed_dim, heads, rate, options.self_attention_map)

    def cross_attention(self, dim: int) -> FoldingAttention:
        """Build the attention to the states of the encoder or of BERT, which are *dim* wide."""
        options = self.options
        heads, rate = options.num_heads, options.attention_dropout
        return FoldingAttention(options.embed_dim, heads, dim, rate, options.attention_map)

    def add_bert(self) -> None:
        """Add the attention to BERT, and what joins it with the NMT branch; they are None in a layer without BERT."""
        options, kind = self.options, FUSION_KINDS[self.options.fusion]
        self.bert_attn: Any = None
        self.bert_attn_layer_norm: Any = None
        self.mix: Any = None
        self.drop_net = DropNet(0.0)
        if options.bert_dim is None or kind.replaces_embeddings:
            return
        self.bert_attn = self.cross_attention(options.bert_dim)
        if options.identity_start:
            nn.init.zeros_(self.bert_attn.out_proj.weight)
            nn.init.zeros_(self.bert_attn.out_proj.bias)
        if kind.is_sublayer:
            self.bert_attn_layer_norm = LayerNorm(options.embed_dim)
        if kind.mix is not None:
            self.mix, self.drop_net = kind.mix(options), DropNet(options.p_net)

    def add_feed_forward(self) -> None:
        """Add the feed-forward network, and its layer norm."""
        self.fc1 = nn.Linear(self.options.embed_dim, self.options.ffn_dim)
        self.fc2 = nn.Linear(self.options.ffn_dim, self.options.embed_dim)
        self.final_layer_norm = LayerNorm(self.options.embed_dim)

    def before(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Return what a sub-layer reads of the states *x*."""
        return norm(x) if self.options.normalize_before else x

    def after(self, x: Tensor, out: Tensor, norm: nn.Module) -> Tensor:
        """Return the states after a sub-layer that has made *out* of the states *x*."""
        x = x + self.dropout_module(out)
        return x if self.options.normalize_before else norm(x)

    def attend(
        self, x: Tensor, attention: nn.Module, memory: Any, norm: nn.Module, bert: Any, needed: Needed = (False, False)
    ) -> Fused:
        """Return the states, (B, T, C), after the NMT branch and BERT's branch, and the attention weights of both.

        The NMT branch is an *attention* to *memory*, with its layer norm.  A branch whose memory is None is left out.
        """
        if self.bert_attn_layer_norm is not None:
            return self._attend_in_turn(x, attention, memory, norm, bert, needed)
        h = self.before(x, norm)
        of_nmt, nmt_weights = (None, None) if memory is None else attention(h, memory, needed[0])
        of_bert, bert_weights = (None, None) if bert is None else self.bert_attn(h, bert, needed[1])
        return self.after(x, self._joined(of_nmt, of_bert, attention), norm), nmt_weights, bert_weights

    def _joined(self, nmt: Any, bert: Any, attention: nn.Module) -> Tensor:
        if self.bert_attn is None:
            return nmt
        if nmt is None:
            return with_zero_gradients(bert, *attention.parameters(), *self.mix.parameters())
        if bert is None:
            return with_zero_gradients(nmt, *self.bert_attn.parameters(), *self.mix.parameters())
        return self.mix(nmt, bert)

    def _attend_in_turn(
        self, x: Tensor, attention: nn.Module, memory: Any, norm: nn.Module, bert: Optional[Memory], needed: Needed
    ) -> Fused:
        of_nmt = (attention, memory, norm, needed[0])
        of_bert = (self.bert_attn, bert, self.bert_attn_layer_norm, needed[1])
        weights: Dict[Any, Optional[Tensor]] = {}
        for part, states, its_norm, is_needed in (of_bert, of_nmt) if self.options.bert_first else (of_nmt, of_bert):
            if states is not None:
                out, weights[part] = part(self.before(x, its_norm), states, is_needed)
                x = self.after(x, out, its_norm)
        return x, weights.get(attention), weights.get(self.bert_attn)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Return the states, (B, T, C), after the feed-forward network."""
        h = self.options.activation_fn(self.fc1(self.before(x, self.final_layer_norm)))
        return self.after(x, self.fc2(self.activation_dropout_module(h)), self.final_layer_norm)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Drop the copies in checkpoints of fairseq's own layer, and rename what is old; fairseq's hook."""
        for key in _SAVED_TWICE:
            state_dict.pop(f"{name}.{key}", None)
        for old, new in _RENAMED.items():
            for key in [key for key in state_dict if key.startswith(f"{name}.{old}")]:
                state_dict[key.replace(f"{name}.{old}", f"{name}.{new}")] = state_dict.pop(key)


class BertFusedEncoderLayer(FusedLayer):
    """Self-attention beside the attention to BERT, and then the feed-forward network (figure 1, left)."""

    def __init__(self, options: LayerOptions) -> None:
        super().__init__(options)
        self.add_bert()
        self.self_attn_layer_norm = LayerNorm(options.embed_dim)
        self.add_feed_forward()

    def forward(self, x: Tensor, positions: Optional[Positions], bert: Optional[Memory]) -> Tensor:
        """Return this layer's states, (B, S, C), from those of the layer below, *x*, (B, S, C).

        An attention to the *positions*, or to *bert*, which is projected already, is left out for None.
        """
        # 1. h~ = 1/2 (attn_S(h, H_E, H_E) + attn_B(h, H_B, H_B))   (section 4.1, step 2)
        x, _, _ = self.attend(x, self.self_attn, positions, self.self_attn_layer_norm, bert)
        # 2. FFN(h~)
        return self.feed_forward(x)


class BertFusedDecoderLayer(FusedLayer):
    """Causal self-attention, attention to the encoder beside attention to BERT, and the feed-forward network.

    (Figure 1, right.)  The encoder's states are *encoder_dim* wide.
    """

    def __init__(self, options: LayerOptions, *, encoder_dim: int) -> None:
        super().__init__(options)
        self.self_attn_layer_norm = LayerNorm(options.embed_dim)
        self.encoder_attn: Any = self.cross_attention(encoder_dim)
        self.encoder_attn_layer_norm = LayerNorm(options.embed_dim)
        self.add_bert()
        self.add_feed_forward()

    def forward(
        self,
        x: Tensor,
        encoder: Optional[Memory],
        bert: Optional[Memory],
        target: Positions,
        needed: Needed = (False, False),
    ) -> Fused:
        """Return this layer's states, (B, T, C), from those of the layer below, *x*, (B, T, C).

        The *needed* weights of the attention to the encoder, (N, H, beams T, S), and to BERT, (N, H, beams T, L),
        follow.  An attention to *encoder* or to *bert*, which are projected already, is left out for None.  *target*
        says what the positions of the target see of each other; T is 1 in incremental decoding.
        """
        # 1. s^ = attn_S(s, S_<=t, S_<=t)   (section 4.1, step 3)
        out, _ = self.self_attn(self.before(x, self.self_attn_layer_norm), target)
        x = self.after(x, out, self.self_attn_layer_norm)
        # 2. s~ = 1/2 (attn_E(s^, H_E, H_E) + attn_B(s^, H_B, H_B))   (step 3)
        x, attn, bert_attn = self.attend(x, self.encoder_attn, encoder, self.encoder_attn_layer_norm, bert, needed)
        # 3. FFN(s~)
        return self.feed_forward(x), attn, bert_attn
