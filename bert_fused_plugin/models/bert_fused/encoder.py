"""The BERT-fused encoder: fairseq's transformer encoder, each layer of which attends to BERT."""

from typing import Any, List, Optional, Tuple

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from bert_fused_plugin.bert.source import BertSource
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.models.bert_fused.layer_building import new_layers
from bert_fused_plugin.modules.beam_order import EncoderOut, reorder_encoder_out
from bert_fused_plugin.modules.cross_attention import project
from bert_fused_plugin.modules.fused_layer import BertFusedEncoderLayer
from bert_fused_plugin.modules.multihead_attention import Positions, attention_mask
from bert_fused_plugin.modules.zero_gradients import after_layer_drop, with_zero_gradients


class BertFusedEncoder(TransformerEncoderBase):
    """Embeddings and BERT-fused layers (Zhu et al. 2020, section 4.1, steps 1 and 2).

    With ``--bert-fusion embedding`` BERT's states, projected to the model's width, replace the token
    embeddings.  Its word pieces replace the source tokens, and no layer attends to BERT.  If the encoder has
    no layers either, its output is H_B itself.  Of *embed_tokens* it uses only the width and the padding index.
    """

    def __init__(
        self, cfg: BertFusedConfig, dictionary: Any, embed_tokens: nn.Embedding, *, source: BertSource
    ) -> None:
        # the base class asks for one layer after the other, between other draws of random numbers, and names none
        self._new_layers = new_layers(BertFusedEncoderLayer, cfg, "encoder", source.dim)
        super().__init__(cfg, dictionary, embed_tokens)
        del self._new_layers
        self.source = source
        source.register_in(self)
        self.bert_proj: Optional[nn.Linear] = None
        self.replaces_embeddings = cfg.fusion.replaces_embeddings
        if self.replaces_embeddings:
            self.embed_tokens = None
            self.embed_scale = 1.0  # BERT's states are of the size that scaled embeddings have
            if self.num_layers == 0:
                self.embed_positions = self.layernorm_embedding = self.layer_norm = None
            else:
                self.bert_proj = nn.Linear(source.dim, embed_tokens.embedding_dim)

    reorder_encoder_out = staticmethod(reorder_encoder_out)

    @property
    def output_dim(self) -> int:
        """The width of ``encoder_out``."""
        return self.source.dim if self.replaces_embeddings and self.num_layers == 0 else int(self.cfg.encoder.embed_dim)

    def build_encoder_layer(self, cfg: BertFusedConfig) -> nn.Module:
        """Build the next layer; fairseq's hook."""
        return next(self._new_layers)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        bert_tokens: Optional[Tensor] = None,
        bert_out: Optional[Tensor] = None,
    ) -> EncoderOut:
        """Return fairseq's ``encoder_out`` with ``bert_out``, (B, L, D), and ``bert_padding_mask``, (B, L).

        Args:
            src_tokens, src_lengths, bert_tokens, bert_out: as for `TranslationModel.forward`.
            return_all_hiddens: whether to fill ``encoder_states``.
        """
        # 1. H_B = BERT(x)   (section 4.1, step 1)
        bert_out, bert_padding_mask = self.source.read(src_tokens, bert_tokens, bert_out, self.version.dtype)
        # 2. H_E, layer by layer   (step 2); fairseq's own loop changes the layout of the states after a reload
        if self.replaces_embeddings:
            x, encoder_embedding = self._embed_bert(bert_out, bert_padding_mask)
            encoder_padding_mask = bert_padding_mask
        else:
            x, encoder_embedding = self.forward_embedding(src_tokens)
            encoder_padding_mask = src_tokens.eq(self.padding_idx)
        if bert_out.requires_grad:  # drop-net may leave BERT out of every layer
            x = with_zero_gradients(x, bert_out)
        states = self._apply_layers(x, encoder_padding_mask, bert_out, bert_padding_mask, return_all_hiddens)
        x = states[-1] if self.layer_norm is None else self.layer_norm(states[-1])
        return {
            "encoder_out": [x.transpose(0, 1)],  # (B, S, C) -> (S, B, C)
            "encoder_padding_mask": [encoder_padding_mask],
            "encoder_embedding": [encoder_embedding],
            "encoder_states": [x.transpose(0, 1) for x in states] if return_all_hiddens else [],
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [],
            "bert_out": [bert_out],
            "bert_padding_mask": [bert_padding_mask],
            "beam_size": [1],  # rows of each sentence
            "memories": [],  # what each layer of the decoder reads in a search
        }

    def _apply_layers(
        self, x: Tensor, padding_mask: Tensor, bert_out: Tensor, bert_padding_mask: Tensor, return_all_hiddens: bool
    ) -> List[Tensor]:
        """Return the states under the first layer and after each one, (B, S, C), or only those after the last."""
        x, layers = after_layer_drop(x, self.layers)
        draws = [layer.drop_net() for layer in layers]
        reads_bert = [None if nmt_alone else layer.bert_attn for layer, (nmt_alone, _) in zip(layers, draws)]
        memories = project(reads_bert, bert_out, attention_mask(bert_padding_mask, x.dtype))
        positions = Positions(attention_mask(padding_mask, x.dtype))
        states = [x]
        for layer, (_, bert_alone), bert in zip(layers, draws, memories):
            x = layer(x, None if bert_alone else positions, bert)
            states = [*states, x] if return_all_hiddens else [x]
        return states

    def _embed_bert(self, bert_out: Tensor, bert_padding_mask: Tensor) -> Tuple[Tensor, Tensor]:
        """Return BERT's states, projected for the first layer, (B, L, C): with positions, and without."""
        if self.bert_proj is None:
            return bert_out, bert_out
        # fairseq gives a position to any symbol other than padding
        symbols = torch.full_like(bert_padding_mask, self.padding_idx + 1, dtype=torch.long)
        symbols = symbols.masked_fill(bert_padding_mask, self.padding_idx)
        return self.forward_embedding(symbols, self.bert_proj(bert_out))
