"""One layer of the BERT-fused decoder (Zhu et al. 2020, figure 1, right)."""

from typing import Any, Callable, Dict, Optional, Tuple

from fairseq.modules import FairseqDropout, LayerNorm, MultiheadAttention
from torch import Tensor, nn

from bert_fused_plugin.modules.cross_attention import CrossAttention, KeysAndValues
from bert_fused_plugin.modules.fusion import FusionOptions
from bert_fused_plugin.modules.sublayer import apply_sublayer

Memories = Tuple[KeysAndValues, Optional[KeysAndValues]]  # of the encoder, of BERT


class BertFusedDecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder beside attention to BERT, the feed-forward network.

    The attributes that a stock transformer layer has too bear its names, so that its checkpoints fit.

    Args:
        embed_dim: C.
        ffn_dim: inner width of the feed-forward network.
        num_heads: attention heads.
        encoder_dim: width of the encoder's states.
        bert_dim: D; None for a layer that does not attend to BERT.
        dropout: after each sub-layer.
        attention_dropout: on attention weights.
        activation_dropout: within the feed-forward network.
        activation_fn: its non-linearity.
        normalize_before: layer norm before each sub-layer (pre-norm) instead of after it.
        fusion: how the attention to the encoder and that to BERT are joined.
    """

    def __init__(
        self,
        *,
        embed_dim: int,
        ffn_dim: int,
        num_heads: int,
        encoder_dim: int,
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
        self.self_attn_layer_norm = LayerNorm(embed_dim)
        self.encoder_attn = CrossAttention(embed_dim, num_heads, encoder_dim, attention_dropout)
        self.encoder_attn_layer_norm = LayerNorm(embed_dim)
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
        encoder_out: Tensor,
        encoder_padding_mask: Tensor,
        bert_out: Tensor,
        bert_padding_mask: Tensor,
        incremental_state: Optional[Dict[str, Any]] = None,
        self_attn_mask: Optional[Tensor] = None,
        self_attn_padding_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        memories: Optional[Memories] = None,
    ) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        """Return this layer's states, (T, B, C), and, if asked for, its attention weights.

        Args:
            x: the states of the layer below, (T, B, C); T is 1 in incremental decoding.
            encoder_out: the encoder's states, (S, B, C).
            encoder_padding_mask: (B, S).
            bert_out: BERT's states, time first: (L, B, D).
            bert_padding_mask: (B, L).
            incremental_state: caches of self-attention, in incremental decoding.
            self_attn_mask: causal mask, (T, T).
            self_attn_padding_mask: (B, T).
            need_attn: return the attention to the encoder, (H, B, T, S), and to BERT, (H, B, T, L).
            memories: what `project` has made of the states; default: they are projected here.
        """
        bert_attn: Any = self.bert_attn
        fusion: Any = self.fusion
        weights: Dict[str, Optional[Tensor]] = {"encoder": None, "bert": None}

        # 1. s^ = attn_S(s, S_<=t, S_<=t)   (section 4.1, step 3)
        def own(s: Tensor) -> Tensor:
            return self.self_attn(
                s,
                s,
                s,
                key_padding_mask=self_attn_padding_mask,
                incremental_state=incremental_state,
                need_weights=False,
                attn_mask=self_attn_mask,
            )[0]

        def encoder(s: Tensor) -> Tensor:
            memory = memories[0] if memories else self.encoder_attn.project(encoder_out, encoder_padding_mask)
            out, weights["encoder"] = self.encoder_attn(s, memory, need_weights=need_attn)
            return out

        def bert(s: Tensor) -> Tensor:
            memory = memories[1] if memories else bert_attn.project(bert_out, bert_padding_mask)
            out, weights["bert"] = bert_attn(s, memory, need_weights=need_attn)
            return out

        # 2. s~ = 1/2 (attn_B(s^, H_B, H_B) + attn_E(s^, H_E, H_E))   (step 3)
        def fused(s: Tensor) -> Tensor:
            return fusion(
                lambda: encoder(s),
                lambda: bert(s),
                batch_size=s.size(1),
                other_module=self.encoder_attn,
                bert_module=bert_attn,
            )

        steps = [(own, self.self_attn_layer_norm), (encoder, self.encoder_attn_layer_norm)]
        if fusion is not None:
            steps[1] = (fused, self.encoder_attn_layer_norm)
        elif bert_attn is not None:
            steps.insert(1 if self.bert_first else 2, (bert, self.bert_attn_layer_norm))
        for attention, norm in steps:
            x = self._sublayer(attention, x, norm)
        # 3. FFN(s~)
        x = self._sublayer(self._feed_forward, x, self.final_layer_norm)
        return x, weights["encoder"], weights["bert"]

    def project(
        self, encoder_out: Tensor, encoder_padding_mask: Tensor, bert_out: Tensor, bert_padding_mask: Tensor
    ) -> Memories:
        """Return the keys and values of the encoder's states and of BERT's, for all steps of incremental decoding."""
        bert_attn: Any = self.bert_attn
        return (
            self.encoder_attn.project(encoder_out, encoder_padding_mask),
            None if bert_attn is None else bert_attn.project(bert_out, bert_padding_mask),
        )

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
