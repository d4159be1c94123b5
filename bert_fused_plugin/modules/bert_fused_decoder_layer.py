"""One layer of the BERT-fused decoder (Zhu et al. 2020, figure 1, right)."""

from functools import partial
from typing import Any, Dict, Optional, Tuple

from fairseq.modules import LayerNorm
from torch import Tensor, nn

from bert_fused_plugin.modules.cross_attention import Memory, States
from bert_fused_plugin.modules.fused_layer import LayerOptions, attend_with_bert, cross_branch, feed_forward
from bert_fused_plugin.modules.fusion import Fusion
from bert_fused_plugin.modules.mapped_attention import Attended
from bert_fused_plugin.modules.sublayer import apply_sublayer

Memories = Tuple[Memory, Optional[Memory]]  # of the encoder, of BERT


class BertFusedDecoderLayer(nn.Module):
    """Causal self-attention, the attention to the encoder beside that to BERT, and the feed-forward network.

    An attribute that a stock transformer layer has too bears the same name here, so that its checkpoints fit.

    Args:
        options: what the layers of encoder and decoder have in common.
        encoder_dim: the width of the encoder's states.
    """

    bert_attn: Optional[nn.Module]
    bert_attn_layer_norm: Optional[nn.Module]
    fusion: Optional[Fusion]

    def __init__(self, options: LayerOptions, *, encoder_dim: int) -> None:
        super().__init__()
        self.self_attn = options.build_self_attention()
        self.self_attn_layer_norm = LayerNorm(options.embed_dim)
        self.encoder_attn = options.build_encoder_attention(encoder_dim)
        self.encoder_attn_layer_norm = LayerNorm(options.embed_dim)
        self.bert_attn, self.bert_attn_layer_norm, self.fusion = options.build_bert_attention()
        self.bert_first = options.fusion.bert_first
        self.fc1, self.fc2, self.final_layer_norm = options.build_feed_forward()
        self.activation_fn = options.activation_fn
        self.dropout_module, self.activation_dropout_module = options.build_dropouts(self)
        self.normalize_before = options.normalize_before

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
        """Return this layer's states, (T, B, C), and, if *need_attn*, the weights of its attentions.

        Args:
            x: the states of the layer below, (T, B, C); T is 1 in incremental decoding, without masks of the target.
            encoder_out: the encoder's states, (S, B, C).
            encoder_padding_mask: the padding of the source, (B, S).
            bert_out: BERT's states, time first: (L, B, D).
            bert_padding_mask: the padding of BERT's input, (B, L).
            incremental_state: the caches of self-attention, in incremental decoding.
            self_attn_mask: the causal mask, (T, T).
            self_attn_padding_mask: the padding of the target, (B, T).
            need_attn: whether to return the attention to the encoder, (H, B, T, S), and to BERT, (H, B, T, L).
            memories: the result of `project_for_search`; without it the layer projects the states itself.
        """
        encoder_memory, bert_memory = memories or (
            States(encoder_out, encoder_padding_mask),
            States(bert_out, bert_padding_mask),
        )
        # 1. s^ = attn_S(s, S_<=t, S_<=t)   (section 4.1, step 3)
        to_target = partial(
            self._attend_to_target, mask=self_attn_mask, padding_mask=self_attn_padding_mask, cache=incremental_state
        )
        x, _ = apply_sublayer(self, to_target, x, self.self_attn_layer_norm)
        # 2. s~ = 1/2 (attn_E(s^, H_E, H_E) + attn_B(s^, H_B, H_B))   (step 3)
        nmt = cross_branch(self.encoder_attn, encoder_memory, need_attn)
        bert = None if self.bert_attn is None else cross_branch(self.bert_attn, bert_memory, need_attn)
        x, attn, bert_attn = attend_with_bert(self, x, nmt, self.encoder_attn_layer_norm, bert)
        # 3. FFN(s~)
        return feed_forward(self, x), attn, bert_attn

    def project_for_search(
        self, encoder_out: Tensor, encoder_padding_mask: Tensor, bert_out: Tensor, bert_padding_mask: Tensor
    ) -> Memories:
        """Return what all steps of incremental decoding read of the encoder's states and of BERT's."""
        bert_attn: Any = self.bert_attn
        return (
            self.encoder_attn.project_for_search(encoder_out, encoder_padding_mask),
            None if bert_attn is None else bert_attn.project_for_search(bert_out, bert_padding_mask),
        )

    def _attend_to_target(
        self, s: Tensor, mask: Optional[Tensor], padding_mask: Optional[Tensor], cache: Optional[Dict[str, Any]]
    ) -> Attended:
        if cache is not None:
            return self.self_attn.step(s, cache), None
        attended: Attended = self.self_attn(s, s, s, key_padding_mask=padding_mask, need_weights=False, attn_mask=mask)
        return attended
