"""One layer of the BERT-fused encoder (Zhu et al. 2020, figure 1, left)."""

from typing import Any, Callable, Dict, Optional

from fairseq.modules import FairseqDropout, LayerNorm, MultiheadAttention
from torch import Tensor, nn

from bert_fused_plugin.modules.fusion import FusionOptions
from bert_fused_plugin.modules.sublayer import apply_sublayer

# copies of q_proj, k_proj, ... that fairseq 0.12's layer registers for a fused kernel
_SAVED_TWICE = tuple(f"{part}_{kind}" for part in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias"))
_LAYER_NORMS_OF_OLD = {"0": "self_attn_layer_norm", "1": "final_layer_norm"}  # fairseq 0.6


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
        fusion: how self-attention and the attention to BERT are joined.
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
        fusion: FusionOptions,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.self_attn = MultiheadAttention(embed_dim, num_heads, dropout=attention_dropout, self_attention=True)
        self.bert_attn: Optional[nn.Module] = None
        self.bert_attn_layer_norm: Optional[nn.Module] = None  # stacked
        self.fusion: Optional[nn.Module] = None  # not stacked
        self.bert_first = fusion.bert_first
        if bert_dim is not None:
            self.bert_attn = fusion.build_attention(embed_dim, num_heads, bert_dim, attention_dropout)
            if fusion.stacked:
                self.bert_attn_layer_norm = LayerNorm(embed_dim)
            else:
                self.fusion = fusion.build(embed_dim)
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
        bert_padding_mask: Tensor,
    ) -> Tensor:
        """Return this layer's states, (S, B, C).

        Args:
            x: the states of the layer below, (S, B, C).
            encoder_padding_mask: (B, S).
            bert_out: BERT's states, time first: (L, B, D).
            bert_padding_mask: (B, L).
        """
        bert_attn: Any = self.bert_attn
        fusion: Any = self.fusion

        def own(h: Tensor) -> Tensor:
            return self.self_attn(h, h, h, key_padding_mask=encoder_padding_mask, need_weights=False)[0]

        def bert(h: Tensor) -> Tensor:
            return bert_attn(h, bert_attn.project(bert_out, bert_padding_mask))[0]

        # 1. h~ = 1/2 (attn_S(h, H_E, H_E) + attn_B(h, H_B, H_B))   (section 4.1, step 2)
        def fused(h: Tensor) -> Tensor:
            return fusion(
                lambda: own(h),
                lambda: bert(h),
                batch_size=h.size(1),
                other_module=self.self_attn,
                bert_module=bert_attn,
            )

        steps = [(own, self.self_attn_layer_norm)]
        if fusion is not None:
            steps = [(fused, self.self_attn_layer_norm)]
        elif bert_attn is not None:
            steps.insert(0 if self.bert_first else 1, (bert, self.bert_attn_layer_norm))
        for attention, norm in steps:
            x = self._sublayer(attention, x, norm)
        # 2. FFN(h~)
        return self._sublayer(self._feed_forward, x, self.final_layer_norm)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Let checkpoints of fairseq's own encoder layer fit: no copies, today's layer norms; fairseq's hook."""
        for key in _SAVED_TWICE:
            state_dict.pop(f"{name}.{key}", None)
        for old, new in _LAYER_NORMS_OF_OLD.items():
            for kind in ("weight", "bias"):
                if f"{name}.layer_norms.{old}.{kind}" in state_dict:
                    state_dict[f"{name}.{new}.{kind}"] = state_dict.pop(f"{name}.layer_norms.{old}.{kind}")

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
