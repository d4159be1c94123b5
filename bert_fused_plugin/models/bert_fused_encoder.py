"""The BERT-fused encoder: fairseq's transformer encoder, each layer of which attends to BERT."""

from typing import Any, Dict, List, Optional

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.models.bert_fused_config import BertFusedConfig, bert_gates
from bert_fused_plugin.models.layer_building import common_layer_options, wrap_layer
from bert_fused_plugin.modules.bert_fused_encoder_layer import BertFusedEncoderLayer
from bert_fused_plugin.modules.frozen_bert import FrozenBert

EncoderOut = Dict[str, List[Any]]


class BertFusedEncoder(TransformerEncoderBase):
    """Embeddings and BERT-fused layers (Zhu et al. 2020, section 4.1, steps 1 and 2).

    Args:
        cfg: the model's flags.
        dictionary: the source dictionary.
        embed_tokens: the source embeddings.
        bert: the frozen encoder.
        bridge: derives BERT's input where a batch does not bring it.
    """

    def __init__(
        self,
        cfg: BertFusedConfig,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        *,
        bert: FrozenBert,
        bridge: DictionaryBridge,
    ) -> None:
        # the base class builds the layers, one after the other, and each asks for its own
        self._bert_dims = iter([bert.dim if gate else None for gate in bert_gates(cfg)[0]])
        super().__init__(cfg, dictionary, embed_tokens)
        del self._bert_dims
        self.mask_special_tokens = cfg.bert_mask_special_tokens
        self.bert = bert
        self.bridge = bridge

    def build_encoder_layer(self, cfg: BertFusedConfig) -> nn.Module:
        """Build one layer; fairseq's hook."""
        return wrap_layer(
            BertFusedEncoderLayer(
                embed_dim=cfg.encoder.embed_dim,
                ffn_dim=cfg.encoder.ffn_embed_dim,
                num_heads=cfg.encoder.attention_heads,
                normalize_before=cfg.encoder.normalize_before,
                bert_dim=next(self._bert_dims),
                **common_layer_options(cfg),
            ),
            cfg,
        )

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        token_embeddings: Optional[Tensor] = None,
        bert_tokens: Optional[Tensor] = None,
        bert_out: Optional[Tensor] = None,
    ) -> EncoderOut:
        """Return fairseq's ``encoder_out`` with ``bert_out``, (B, L, D), and ``bert_padding_mask``, (B, L).

        Args:
            src_tokens: (B, S), padded on either side.
            src_lengths: not used.
            return_all_hiddens: fill ``encoder_states``.
            token_embeddings: (B, S, C) instead of the embeddings of *src_tokens*.
            bert_tokens: BERT's input, (B, L); default: derived from *src_tokens*.
            bert_out: BERT's states for *bert_tokens*, (B, L, D), from the cache; default: computed.
        """
        # 1. H_B = BERT(x)
        if bert_tokens is None:
            bert_tokens = self.bridge.bert_tokens(src_tokens)
        if bert_out is None:
            bert_out, bert_padding_mask = self.bert(bert_tokens)
        else:
            bert_padding_mask = bert_tokens.eq(BERT_PAD)
        if self.mask_special_tokens:
            bert_padding_mask = self._mask_special_tokens(bert_tokens, bert_padding_mask)
        bert_out = bert_out.to(self.embed_tokens.weight.dtype)

        # 2. the layers; the loop is ours, as the stock one changes the layout after a reload
        encoder_padding_mask = src_tokens.eq(self.padding_idx)
        x, encoder_embedding = self.forward_embedding(src_tokens, token_embeddings)
        x = x.transpose(0, 1)  # (B, S, C) -> (S, B, C)
        encoder_states = [x]
        for layer in self.layers:
            x = layer(x, encoder_padding_mask, bert_out.transpose(0, 1), bert_padding_mask)
            encoder_states.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)

        return {
            "encoder_out": [x],
            "encoder_padding_mask": [encoder_padding_mask],
            "encoder_embedding": [encoder_embedding],
            "encoder_states": encoder_states if return_all_hiddens else [],
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~encoder_padding_mask).sum(dim=1, keepdim=True).int()],
            "bert_out": [bert_out],
            "bert_padding_mask": [bert_padding_mask],
        }

    def _mask_special_tokens(self, bert_tokens: Tensor, bert_padding_mask: Tensor) -> Tensor:
        """Return *bert_padding_mask* with special tokens masked too, but the first one of an empty sentence."""
        special = torch.tensor(self.bridge.special_tokens, device=bert_tokens.device)
        masked = bert_padding_mask | torch.isin(bert_tokens, special)
        masked[:, 0] &= ~masked.all(dim=1)
        return masked

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Return *encoder_out* with its sentences in *new_order*, as beam search asks for."""
        reordered: EncoderOut = super().reorder_encoder_out(encoder_out, new_order)
        for key in ("bert_out", "bert_padding_mask"):
            reordered[key] = [state.index_select(0, new_order) for state in encoder_out[key]]
        return reordered
