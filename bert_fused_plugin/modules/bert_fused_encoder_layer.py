"""One layer of the BERT-fused encoder (Zhu et al. 2020, figure 1, left)."""

from typing import Callable, Dict, Optional, Tuple

from fairseq.modules import FairseqDropout, LayerNorm, MultiheadAttention
from torch import Tensor, nn

from bert_fused_plugin.modules.fusion import ParallelFusion
from bert_fused_plugin.modules.sublayer import apply_sublayer

# copies of q_proj, k_proj, ... that fairseq 0.12's layer registers for a fused kernel
_SAVED_TWICE = tuple(f"{part}_{kind}" for part in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias"))


class BertFusedEncoderLayer(nn.Module):
    """Self-attention beside attention to BERT, then the feed-forward network.

    The attributes that a stock transformer layer has too bear its names, so that its checkpoints fit.

    Args:
        embed_dim: C.
        ffn_dim: inner width of the feed-forward network.
        num_heads: attention heads.
        bert_dim: D; None for a layer that does not attend to BERT.
        dropout: after each sub-layer.
        attention_dropout: on attention weights.
        activation_dropout: within the feed-forward network.
        activation_fn: its non-linearity.
        normalize_before: layer norm before each sub-layer (pre-norm) instead of after it.
        p_net: drop-net's rate.
        branch_weights: of (NMT branch, BERT's) where both are used.
    """

    def __init__(
        self,
        *,
        embed_dim: int,
        ffn_dim: int,
        num_heads: int,
        bert_dim: Optional[int],
        dropout: float,
        attention_dropout: float,
        activation_dropout: float,
        activation_fn: Callable[[Tensor], Tensor],
        normalize_before: bool,
        p_net: float,
        branch_weights: Tuple[float, float],
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.self_attn = MultiheadAttention(embed_dim, num_heads, dropout=attention_dropout, self_attention=True)
        self.bert_attn: Optional[nn.Module] = None
        if bert_dim is not None:
            self.bert_attn = MultiheadAttention(
                embed_dim,
                num_heads,
                kdim=bert_dim,
                vdim=bert_dim,
                dropout=attention_dropout,
                encoder_decoder_attention=True,
            )
        self.fusion = ParallelFusion(p_net, branch_weights)
        self.self_attn_layer_norm = LayerNorm(embed_dim)
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)
        self.final_layer_norm = LayerNorm(embed_dim)
        self.activation_fn = activation_fn
        self.dropout_module = FairseqDropout(dropout, module_name=name)
        self.activation_dropout_module = FairseqDropout(activation_dropout, module_name=name)
        self.normalize_before = normalize_before

    def forward(
        self,
        x: Tensor,
        encoder_padding_mask: Optional[Tensor],
        bert_out: Tensor,
        bert_padding_mask: Optional[Tensor],
    ) -> Tensor:
        """Return this layer's states, (S, B, C).

        Args:
            x: the states of the layer below, (S, B, C).
            encoder_padding_mask: (B, S).
            bert_out: BERT's states, time first: (L, B, D).
            bert_padding_mask: (B, L).
        """

        bert_attn = self.bert_attn

        # 1. h~ = 1/2 (attn_S(h, H_E, H_E) + attn_B(h, H_B, H_B))   (section 4.1, step 2)
        def fused_attention(h: Tensor) -> Tensor:
            def own() -> Tensor:
                return self.self_attn(h, h, h, key_padding_mask=encoder_padding_mask, need_weights=False)[0]

            if bert_attn is None:
                return own()

            def bert() -> Tensor:
                return bert_attn(h, bert_out, bert_out, key_padding_mask=bert_padding_mask, need_weights=False)[0]

            return self.fusion(own, bert, other_module=self.self_attn, bert_module=bert_attn)

        x = self._sublayer(fused_attention, x, self.self_attn_layer_norm)
        # 2. FFN(h~)
        return self._sublayer(self._feed_forward, x, self.final_layer_norm)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Drop what fairseq's own encoder layer saves twice, so that its checkpoints fit; fairseq's hook."""
        for key in _SAVED_TWICE:
            state_dict.pop(f"{name}.{key}", None)

    def _feed_forward(self, x: Tensor) -> Tensor:
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        return self.fc2(x)

    def _sublayer(self, sublayer: Callable[[Tensor], Tensor], x: Tensor, norm: nn.Module) -> Tensor:
        return apply_sublayer(
            sublayer,
            x,
            norm=norm,
            dropout=self.dropout_module,
            normalize_before=self.normalize_before,
        )
