"""One layer of the BERT-fused decoder (Zhu et al. 2020, figure 1, right)."""

from functools import partial
from typing import Any, Dict, Optional, Tuple

from fairseq.modules import LayerNorm
from torch import Tensor

from bert_fused_plugin.modules.cross_attention import Memory, States
from bert_fused_plugin.modules.fused_layer import FusedLayer, LayerOptions
from bert_fused_plugin.modules.fusion import Branch, Fused
from bert_fused_plugin.modules.multihead_attention import Attended

Memories = Tuple[Memory, Optional[Memory]]  # of the encoder, of BERT


class BertFusedDecoderLayer(FusedLayer):
    """Causal self-attention, attention to the encoder beside attention to BERT, and the feed-forward network."""

    def __init__(self, options: LayerOptions, *, encoder_dim: int) -> None:
        super().__init__(options)
        self.self_attn = options.build_self_attention()
        self.self_attn_layer_norm = LayerNorm(options.embed_dim)
        self.encoder_attn: Any = options.build_cross_attention(encoder_dim)
        self.encoder_attn_layer_norm = LayerNorm(options.embed_dim)
        self.add_bert_attention(options)
        self.add_feed_forward(options)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_mask: Tensor,
        bert_out: Tensor,
        bert_mask: Tensor,
        incremental_state: Optional[Dict[str, Any]] = None,
        self_attn_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        memories: Optional[Memories] = None,
    ) -> Fused:
        """Return this layer's states, (T, B, C), and, if *need_attn*, the weights of its attentions.

        Args:
            x: the states of the layer below, (T, B, C); T is 1 in incremental decoding, without masks of the target.
            encoder_out: the encoder's states, (S, B, C).
            encoder_mask: of the padding of the source, (B, 1, 1, S), see `attention_mask`.
            bert_out: BERT's states, time first: (L, B, D).
            bert_mask: of the padding of BERT's input, (B, 1, 1, L).
            incremental_state: the caches of self-attention, in incremental decoding.
            self_attn_mask: the causal mask, (T, T), by which no target token sees the padding behind it.
            need_attn: whether to return the attention to the encoder, (H, B, T, S), and to BERT, (H, B, T, L).
            memories: the result of `project_for_search`; without it the layer projects the states itself.
        """
        encoder_memory, bert_memory = memories or (States(encoder_out, encoder_mask), States(bert_out, bert_mask))
        # 1. s^ = attn_S(s, S_<=t, S_<=t)   (section 4.1, step 3)
        to_target = partial(self._attend_to_target, mask=self_attn_mask, cache=incremental_state)
        x, _ = self.apply_sublayer(to_target, x, self.self_attn_layer_norm)
        # 2. s~ = 1/2 (attn_E(s^, H_E, H_E) + attn_B(s^, H_B, H_B))   (step 3)
        attend = partial(self.encoder_attn, memory=encoder_memory, need_weights=need_attn)
        nmt = Branch(attend, self.encoder_attn, self.encoder_attn_layer_norm)
        x, attn, bert_attn = self.attend_with_bert(x, nmt, bert_memory, need_attn)
        # 3. FFN(s~)
        return self.feed_forward(x), attn, bert_attn

    def project_for_search(
        self, encoder_out: Tensor, encoder_mask: Tensor, bert_out: Tensor, bert_mask: Tensor
    ) -> Memories:
        """Return what all steps of incremental decoding read of the encoder's states and of BERT's."""
        return (
            self.encoder_attn.project_for_search(encoder_out, encoder_mask),
            None if self.bert_attn is None else self.bert_attn.project_for_search(bert_out, bert_mask),
        )

    def _attend_to_target(self, s: Tensor, mask: Optional[Tensor], cache: Optional[Dict[str, Any]]) -> Attended:
        return self.self_attn(s, mask) if cache is None else self.self_attn.step(s, cache), None
