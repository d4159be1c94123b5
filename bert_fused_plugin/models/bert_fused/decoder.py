"""The BERT-fused decoder: fairseq's transformer decoder, each layer of which attends to BERT."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.models.bert_fused.layer_building import new_layers
from bert_fused_plugin.modules.cross_attention import project
from bert_fused_plugin.modules.folded_attention import Memory
from bert_fused_plugin.modules.fused_layer import BertFusedDecoderLayer
from bert_fused_plugin.modules.multihead_attention import Positions, attention_mask
from bert_fused_plugin.modules.zero_gradients import after_layer_drop, with_zero_gradients

Extra = Dict[str, Optional[List[Tensor]]]
Memories = List[Tuple[Optional[Memory], Optional[Memory]]]  # of each layer: of the encoder's states, and of BERT's


class BertFusedDecoder(TransformerDecoderBase):
    """Embeddings and BERT-fused layers (Zhu et al. 2020, section 4.1, step 3); *bert_dim* is D."""

    def __init__(
        self, cfg: BertFusedConfig, dictionary: Any, embed_tokens: nn.Embedding, *, encoder_dim: int, bert_dim: int
    ) -> None:
        # the base class asks for one layer after the other, between other draws of random numbers, and names none
        self._new_layers = new_layers(BertFusedDecoderLayer, cfg, "decoder", bert_dim, encoder_dim=encoder_dim)
        super().__init__(cfg, dictionary, embed_tokens)
        del self._new_layers
        self.replaces_embeddings = cfg.fusion.replaces_embeddings

    def build_decoder_layer(self, cfg: BertFusedConfig, no_encoder_attn: bool = False) -> nn.Module:
        """Build the next layer; fairseq's hook."""
        return next(self._new_layers)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Dict[str, List[Any]],
        incremental_state: Optional[Dict[str, Any]] = None,
        full_context_alignment: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ) -> Tuple[Tensor, Extra]:
        """Return the states under the output layer, (B, T, C), and ``extra``; the arguments are those of fairseq's.

        ``extra["attn"]`` and ``extra["bert_attn"]`` list the attention of one layer to the source, (B, T, S), and to
        BERT, (B, T, L), as the mean over heads.  In training they are None unless *alignment_layer* is given, and a
        search, which shows nobody the attention to BERT, does not compute it.  With embedding fusion the encoder's
        positions are BERT's word pieces, and the attention to them is ``extra["bert_attn"]``.
        """
        x = self._embed(prev_output_tokens, incremental_state)
        target = Positions(None, incremental_state is None, incremental_state)
        if full_context_alignment:  # padding comes after a target, where no position sees it otherwise
            target = Positions(attention_mask(prev_output_tokens.eq(self.padding_idx), x.dtype))
        attn_layer = alignment_layer
        if attn_layer is None and not self.training:
            attn_layer = self.num_layers - 1
        attn = bert_attn = None
        x, layers = after_layer_drop(x, self.layers)
        memories = self._memories(layers, encoder_out, incremental_state)
        if all(of_encoder is None for of_encoder, _ in memories):  # by drop-net or LayerDrop
            x = with_zero_gradients(x, encoder_out["encoder_out"][0])
        for index, (layer, memory) in enumerate(zip(layers, memories)):
            is_shown = index == attn_layer
            x, *weights = layer(x, *memory, target, (is_shown, is_shown and incremental_state is None))
            if is_shown:
                attn, bert_attn = weights
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        if self.replaces_embeddings:
            attn, bert_attn = None, attn
        size = x.shape[:2]
        return x, {"attn": _mean(attn, alignment_heads, *size), "bert_attn": _mean(bert_attn, alignment_heads, *size)}

    def reorder_incremental_state_scripting(self, incremental_state: Dict[str, Any], new_order: Tensor) -> None:
        """Reorder the keys and values of self-attention; fairseq's would look for them in all modules in each step."""
        for layer in self.layers.children():  # with LayerDrop, iterating over layers draws random numbers
            layer.self_attn.reorder_incremental_state(incremental_state, new_order)

    def _memories(
        self, layers: Sequence[Any], encoder_out: Dict[str, List[Any]], incremental_state: Optional[Dict[str, Any]]
    ) -> Memories:
        if incremental_state is not None and encoder_out["memories"]:  # made in the first step of a search
            return encoder_out["memories"][0]
        dtype = self.embed_tokens.weight.dtype
        masks = [attention_mask(encoder_out[f"{name}_padding_mask"][0], dtype) for name in ("encoder", "bert")]
        draws = [layer.drop_net() for layer in layers]
        reads_encoder = [None if bert_alone else layer.encoder_attn for layer, (_, bert_alone) in zip(layers, draws)]
        reads_bert = [None if nmt_alone else layer.bert_attn for layer, (nmt_alone, _) in zip(layers, draws)]
        encoder = project(reads_encoder, encoder_out["encoder_out"][0].transpose(0, 1), masks[0])
        bert = project(reads_bert, encoder_out["bert_out"][0], masks[1])
        if incremental_state is None:
            return list(zip(encoder, bert))
        memories = [
            (layer.encoder_attn.fold(of_encoder), of_bert and layer.bert_attn.fold(of_bert))
            for layer, of_encoder, of_bert in zip(layers, encoder, bert)
        ]
        encoder_out["memories"] = [memories]
        return memories

    def _embed(self, prev_output_tokens: Tensor, incremental_state: Optional[Dict[str, Any]]) -> Tensor:
        """Return token and position embeddings, (B, T, C)."""
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(prev_output_tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        x = self.embed_scale * self.embed_tokens(prev_output_tokens)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)


def _mean(weights: Optional[Tensor], num_heads: Optional[int], rows: int, length: int) -> Optional[List[Tensor]]:
    """Return a list of the mean over the first *num_heads* heads, (B, T, S), of *weights*, (N, H, beams T, S)."""
    return None if weights is None else [weights[:, :num_heads].mean(dim=1).view(rows, length, -1)]
