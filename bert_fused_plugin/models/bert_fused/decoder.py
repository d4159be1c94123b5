"""The BERT-fused decoder: fairseq's transformer decoder, each layer of which attends to BERT."""

from typing import Any, Dict, List, Optional, Tuple

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.models.bert_fused.layer_building import new_layers
from bert_fused_plugin.modules.beam_order import select_sentences, sentences_to_keep
from bert_fused_plugin.modules.bert_fused_decoder_layer import BertFusedDecoderLayer, Memories
from bert_fused_plugin.modules.drop_net import after_layer_drop, with_zero_gradients
from bert_fused_plugin.modules.multihead_attention import attention_mask

Extra = Dict[str, Optional[List[Tensor]]]


class BertFusedDecoder(TransformerDecoderBase):
    """Embeddings and BERT-fused layers (Zhu et al. 2020, section 4.1, step 3).

    The encoder's output is *encoder_dim* wide, and *bert_dim* is D.
    """

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
        encoder_out: Dict[str, List[Tensor]],
        incremental_state: Optional[Dict[str, Any]] = None,
        full_context_alignment: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ) -> Tuple[Tensor, Extra]:
        """Return the states under the output layer, (B, T, C), and what fairseq calls ``extra``.

        ``extra["attn"]`` and ``extra["bert_attn"]`` list the attention of one layer to the source, (B, T, S), and to
        BERT, (B, T, L), as the mean over heads.  In training they are None unless *alignment_layer* is given.  With
        embedding fusion the encoder's positions are BERT's word pieces, and the attention to them is
        ``extra["bert_attn"]``.

        Args:
            prev_output_tokens, encoder_out, incremental_state: as for fairseq's decoder.
            full_context_alignment: whether to leave out the causal mask.
            alignment_layer: the index of the layer whose attention is returned; by default the last.
            alignment_heads: the number of heads that count; by default all.
        """
        x = self._embed(prev_output_tokens, incremental_state)
        if encoder_out["encoder_out"][0].requires_grad:  # drop-net may leave the encoder out of every layer
            x = with_zero_gradients(x, encoder_out["encoder_out"][0])
        causal = incremental_state is None and not full_context_alignment
        mask = self.buffered_future_mask(x) if causal else None
        attn_layer = alignment_layer
        if attn_layer is None and not self.training:
            attn_layer = self.num_layers - 1
        x, attn, bert_attn = self._apply_layers(x, encoder_out, incremental_state, mask, attn_layer)
        if self.replaces_embeddings:
            attn, bert_attn = None, attn
        return self._output(x), {"attn": _mean(attn, alignment_heads), "bert_attn": _mean(bert_attn, alignment_heads)}

    def reorder_incremental_state_scripting(self, incremental_state: Dict[str, Any], new_order: Tensor) -> None:
        """Reorder what this decoder and its layers keep; fairseq's would look for it in all modules in each step.

        A module that keeps something for the next step must be named here.
        """
        self.reorder_incremental_state(incremental_state, new_order)
        for layer in self.layers.children():  # with LayerDrop, iterating over layers draws random numbers
            layer.self_attn.reorder_incremental_state(incremental_state, new_order)

    def reorder_incremental_state(self, incremental_state: Dict[str, Any], new_order: Tensor) -> None:
        """Drop what the layers read of the sentences that are done; fairseq's hook."""
        cached = self.get_incremental_state(incremental_state, "memories")
        if cached is None:
            return
        layers = cached["layers"]
        keep, beam_size = sentences_to_keep(new_order, len(layers[0][0].keys), cached["beam_size"])
        if keep is not None:
            layers = [tuple(memory and select_sentences(memory, keep) for memory in memories) for memories in layers]
        self.set_incremental_state(incremental_state, "memories", {"layers": layers, "beam_size": beam_size})

    def _apply_layers(
        self,
        x: Tensor,
        encoder_out: Dict[str, List[Tensor]],
        incremental_state: Optional[Dict[str, Any]],
        mask: Optional[Tensor],
        attn_layer: Optional[int],
    ) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        """Return the states of the last layer, (T, B, C), and the attention weights of layer *attn_layer*."""
        masks = [attention_mask(encoder_out[f"{name}_padding_mask"][0], x.dtype) for name in ("encoder", "bert")]
        states = encoder_out["encoder_out"][0], masks[0], encoder_out["bert_out"][0].transpose(0, 1), masks[1]
        memories = self._memories(states, incremental_state, rows=x.size(1))
        attn = bert_attn = None
        x, layers = after_layer_drop(x, self.layers)
        for index, layer in enumerate(layers):
            x, *weights = layer(
                x, *states, incremental_state, mask, need_attn=index == attn_layer, memories=memories[index]
            )
            if index == attn_layer:
                attn, bert_attn = weights
        return x, attn, bert_attn

    def _memories(
        self, states: Tuple[Tensor, ...], incremental_state: Optional[Dict[str, Any]], rows: int
    ) -> List[Optional[Memories]]:
        """Return what each layer reads in all steps; in training a layer projects what drop-net leaves in."""
        if incremental_state is None:
            return [None] * self.num_layers
        cached = self.get_incremental_state(incremental_state, "memories")
        if cached is None:
            layers = [layer.project_for_search(*states) for layer in self.layers.children()]
            cached = {"layers": layers, "beam_size": rows // len(states[1])}
            self.set_incremental_state(incremental_state, "memories", cached)
        return cached["layers"]

    def _embed(self, prev_output_tokens: Tensor, incremental_state: Optional[Dict[str, Any]]) -> Tensor:
        """Return token and position embeddings, (T, B, C)."""
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(prev_output_tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        x = self.embed_scale * self.embed_tokens(prev_output_tokens.contiguous())
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x).transpose(0, 1)  # (B, T, C) -> (T, B, C)

    def _output(self, x: Tensor) -> Tensor:
        """Return the states under the output layer, (B, T, C), of the last layer's states, (T, B, C)."""
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        # (T, B, C) -> (B, T, C).  The view does away with the odd stride of a single step, for which torch would
        # multiply each row by itself with an output matrix that is frozen (benchmarks/TRIED.md).
        x = x.transpose(0, 1).view(x.size(1), x.size(0), x.size(2))
        return x if self.project_out_dim is None else self.project_out_dim(x)


def _mean(weights: Optional[Tensor], num_heads: Optional[int]) -> Optional[List[Tensor]]:
    """Return a list of the mean over the first *num_heads* heads, (B, T, S), of *weights*, (H, B, T, S)."""
    return None if weights is None else [weights[:num_heads].mean(dim=0)]
