"""One layer of the BERT-fused encoder (Zhu et al. 2020, figure 1, left)."""

from typing import Any, Dict

from fairseq.modules import LayerNorm
from torch import Tensor

from bert_fused_plugin.modules.cross_attention import States
from bert_fused_plugin.modules.fused_layer import FusedLayer, LayerOptions
from bert_fused_plugin.modules.fusion import Branch

# fairseq 0.12's layer registers these copies of q_proj, k_proj, ... for a fused kernel
_SAVED_TWICE = tuple(f"{part}_{kind}" for part in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias"))
_LAYER_NORMS_OF_OLD = {"0": "self_attn_layer_norm", "1": "final_layer_norm"}  # fairseq 0.6


class BertFusedEncoderLayer(FusedLayer):
    """Self-attention beside the attention to BERT, and then the feed-forward network."""

    def __init__(self, options: LayerOptions) -> None:
        super().__init__(options)
        self.self_attn: Any = options.build_self_attention()
        self.add_bert_attention(options)
        self.self_attn_layer_norm = LayerNorm(options.embed_dim)
        self.add_feed_forward(options)

    def forward(self, x: Tensor, mask: Tensor, bert_out: Tensor, bert_mask: Tensor) -> Tensor:
        """Return this layer's states, (S, B, C).

        Args:
            x: the states of the layer below, (S, B, C).
            mask: of the padding of the source, (B, 1, 1, S), see `attention_mask`.
            bert_out: BERT's states, time first: (L, B, D).
            bert_mask: of the padding of BERT's input, (B, 1, 1, L).
        """
        # 1. h~ = 1/2 (attn_S(h, H_E, H_E) + attn_B(h, H_B, H_B))   (section 4.1, step 2)
        to_source = self.self_attn
        nmt = Branch(lambda h: (to_source(h, mask), None), to_source, self.self_attn_layer_norm)
        x, _, _ = self.attend_with_bert(x, nmt, States(bert_out, bert_mask))
        # 2. FFN(h~)
        return self.feed_forward(x)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Drop the copies in checkpoints of fairseq's own layer, and rename its old layer norms; fairseq's hook."""
        for key in _SAVED_TWICE:
            state_dict.pop(f"{name}.{key}", None)
        for old, new in _LAYER_NORMS_OF_OLD.items():
            for kind in ("weight", "bias"):
                if f"{name}.layer_norms.{old}.{kind}" in state_dict:
                    state_dict[f"{name}.{new}.{kind}"] = state_dict.pop(f"{name}.layer_norms.{old}.{kind}")
