"""One layer of the BERT-fused encoder (Zhu et al. 2020, figure 1, left)."""

from functools import partial
from typing import Dict, Optional

from fairseq.modules import LayerNorm
from torch import Tensor, nn

from bert_fused_plugin.modules.cross_attention import States
from bert_fused_plugin.modules.fused_layer import LayerOptions, attend_with_bert, cross_branch, feed_forward
from bert_fused_plugin.modules.fusion import Branch, Fusion
from bert_fused_plugin.modules.mapped_attention import Attended

# fairseq 0.12's layer registers these copies of q_proj, k_proj, ... for a fused kernel
_SAVED_TWICE = tuple(f"{part}_{kind}" for part in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias"))
_LAYER_NORMS_OF_OLD = {"0": "self_attn_layer_norm", "1": "final_layer_norm"}  # fairseq 0.6


class BertFusedEncoderLayer(nn.Module):
    """Self-attention beside the attention to BERT, and then the feed-forward network.

    An attribute that a stock transformer layer has too bears the same name here, so that its checkpoints fit.

    Args:
        options: what the layers of encoder and decoder have in common.
    """

    bert_attn: Optional[nn.Module]
    bert_attn_layer_norm: Optional[nn.Module]
    fusion: Optional[Fusion]

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        self.self_attn = options.build_self_attention()
        self.bert_attn, self.bert_attn_layer_norm, self.fusion = options.build_bert_attention()
        self.bert_first = options.fusion.bert_first
        self.self_attn_layer_norm = LayerNorm(options.embed_dim)
        self.fc1, self.fc2, self.final_layer_norm = options.build_feed_forward()
        self.activation_fn = options.activation_fn
        self.dropout_module, self.activation_dropout_module = options.build_dropouts(self)
        self.normalize_before = options.normalize_before

    def forward(
        self, x: Tensor, encoder_padding_mask: Optional[Tensor], bert_out: Tensor, bert_padding_mask: Tensor
    ) -> Tensor:
        """Return this layer's states, (S, B, C).

        Args:
            x: the states of the layer below, (S, B, C).
            encoder_padding_mask: the padding of the source, (B, S).
            bert_out: BERT's states, time first: (L, B, D).
            bert_padding_mask: the padding of BERT's input, (B, L).
        """
        # 1. h~ = 1/2 (attn_S(h, H_E, H_E) + attn_B(h, H_B, H_B))   (section 4.1, step 2)
        nmt = Branch(partial(self._attend_to_source, padding_mask=encoder_padding_mask), self.self_attn)
        bert_memory = States(bert_out, bert_padding_mask)
        bert = None if self.bert_attn is None else cross_branch(self.bert_attn, bert_memory)
        x, _, _ = attend_with_bert(self, x, nmt, self.self_attn_layer_norm, bert)
        # 2. FFN(h~)
        return feed_forward(self, x)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Drop the copies in checkpoints of fairseq's own layer, and rename its old layer norms; fairseq's hook."""
        for key in _SAVED_TWICE:
            state_dict.pop(f"{name}.{key}", None)
        for old, new in _LAYER_NORMS_OF_OLD.items():
            for kind in ("weight", "bias"):
                if f"{name}.layer_norms.{old}.{kind}" in state_dict:
                    state_dict[f"{name}.{new}.{kind}"] = state_dict.pop(f"{name}.layer_norms.{old}.{kind}")

    def _attend_to_source(self, h: Tensor, padding_mask: Optional[Tensor]) -> Attended:
        attended: Attended = self.self_attn(h, h, h, key_padding_mask=padding_mask, need_weights=False)
        return attended
