"""The BERT-fused decoder: fairseq's transformer decoder, each layer of which attends to BERT."""

from typing import Any, Dict, List, Optional, Tuple

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, bert_gates, replaces_embeddings
from bert_fused_plugin.models.bert_fused.layer_building import common_layer_options, wrap_layer
from bert_fused_plugin.modules.beam_order import regroup
from bert_fused_plugin.modules.bert_fused_decoder_layer import BertFusedDecoderLayer, Memories
from bert_fused_plugin.modules.fusion import with_zero_gradients

Extra = Dict[str, List[Optional[Tensor]]]


class BertFusedDecoder(TransformerDecoderBase):
    """Embeddings and BERT-fused layers (Zhu et al. 2020, section 4.1, step 3).

    Args:
        cfg: the model's flags.
        dictionary: the target dictionary.
        embed_tokens: the target embeddings.
        encoder_dim: width of the encoder's output.
        bert_dim: D.
    """

    def __init__(
        self, cfg: BertFusedConfig, dictionary: Any, embed_tokens: nn.Embedding, *, encoder_dim: int, bert_dim: int
    ) -> None:
        # the base class builds the layers, one after the other, and each asks for its own
        self._bert_dims = iter([bert_dim if gate else None for gate in bert_gates(cfg)[1]])
        self._encoder_dim = encoder_dim
        super().__init__(cfg, dictionary, embed_tokens)
        del self._bert_dims
        self.reads_bert_alone = replaces_embeddings(cfg)

    def build_decoder_layer(self, cfg: BertFusedConfig, no_encoder_attn: bool = False) -> nn.Module:
        """Build one layer; fairseq's hook."""
        return wrap_layer(
            BertFusedDecoderLayer(
                embed_dim=cfg.decoder.embed_dim,
                ffn_dim=cfg.decoder.ffn_embed_dim,
                num_heads=cfg.decoder.attention_heads,
                normalize_before=cfg.decoder.normalize_before,
                encoder_dim=self._encoder_dim,
                bert_dim=next(self._bert_dims),
                **common_layer_options(cfg),
            ),
            cfg,
        )

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

        ``extra["attn"]`` and ``extra["bert_attn"]`` hold the attention of *alignment_layer* (default: the
        last) to source, (B, T, S), and to BERT, (B, T, L), mean over *alignment_heads* (default: all);
        in training only where *alignment_layer* is given.  With embedding fusion the encoder's positions are
        BERT's word pieces, so the attention to them is ``extra["bert_attn"]``.

        Args:
            prev_output_tokens: (B, T).
            encoder_out: the encoder's output, with ``bert_out`` and ``bert_padding_mask``.
            incremental_state: caches, in incremental decoding.
            full_context_alignment: no causal mask.
            alignment_layer: index of the layer.
            alignment_heads: number of heads.
        """
        need_attn = alignment_layer is not None or not self.training
        attn_layer = self.num_layers - 1 if alignment_layer is None else alignment_layer
        x, self_attn_padding_mask = self._embed(prev_output_tokens, incremental_state)
        if encoder_out["encoder_out"][0].requires_grad:  # drop-net may leave the encoder out of every layer
            x = with_zero_gradients(x, encoder_out["encoder_out"][0])
        causal = incremental_state is None and not full_context_alignment
        self_attn_mask = self.buffered_future_mask(x) if causal else None

        states = (
            encoder_out["encoder_out"][0],
            encoder_out["encoder_padding_mask"][0],
            encoder_out["bert_out"][0].transpose(0, 1),
            encoder_out["bert_padding_mask"][0],
        )
        memories = self._memories(states, incremental_state, len(prev_output_tokens))
        attn: Optional[Tensor] = None
        bert_attn: Optional[Tensor] = None
        inner_states: List[Optional[Tensor]] = [x]
        for index, layer in enumerate(self.layers):
            x, layer_attn, layer_bert_attn = layer(
                x,
                *states,
                incremental_state,
                self_attn_mask=self_attn_mask,
                self_attn_padding_mask=self_attn_padding_mask,
                need_attn=need_attn and index == attn_layer,
                memories=memories[index],
            )
            inner_states.append(x)
            if layer_attn is not None:  # None also where drop-net left the branch out
                attn = layer_attn[:alignment_heads].mean(dim=0)
            if layer_bert_attn is not None:
                bert_attn = layer_bert_attn[:alignment_heads].mean(dim=0)

        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)  # (T, B, C) -> (B, T, C)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        if self.reads_bert_alone:
            attn, bert_attn = None, attn
        return x, {"attn": [attn], "bert_attn": [bert_attn], "inner_states": inner_states}

    def reorder_incremental_state(self, incremental_state: Dict[str, Any], new_order: Tensor) -> None:
        """Let the keys and values of sentences that are done go; fairseq's hook, for the layers too."""
        cached = self.get_incremental_state(incremental_state, "memories")
        if cached is None:
            return
        sentences = len(cached["layers"][0][0].keys)
        keep, beam_size = regroup(new_order, sentences, cached["beam_size"])
        layers = cached["layers"]
        if keep is not None:
            layers = [tuple(None if kv is None else kv.select(keep) for kv in memories) for memories in layers]
        self.set_incremental_state(incremental_state, "memories", {"layers": layers, "beam_size": beam_size})

    def _memories(
        self, states: Tuple[Tensor, ...], incremental_state: Optional[Dict[str, Any]], rows: int
    ) -> List[Optional[Memories]]:
        """Return the keys and values of each layer; in training they are left to the layers, for drop-net."""
        if incremental_state is None:
            return [None] * self.num_layers
        cached = self.get_incremental_state(incremental_state, "memories")
        if cached is None:
            layers = [layer.project(*states) for layer in self.layers]
            cached = {"layers": layers, "beam_size": rows // len(states[1])}
            self.set_incremental_state(incremental_state, "memories", cached)
        memories: List[Optional[Memories]] = cached["layers"]
        return memories

    def _embed(
        self, prev_output_tokens: Tensor, incremental_state: Optional[Dict[str, Any]]
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Return token and position embeddings, (T, B, C), and the padding mask, (B, T), if there is padding."""
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(prev_output_tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        x = self.embed_scale * self.embed_tokens(prev_output_tokens.contiguous())
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x).transpose(0, 1)  # (B, T, C) -> (T, B, C)
        if incremental_state is not None:  # beam search extends by real symbols, and need not wait for a GPU here
            return x, None
        padding_mask = prev_output_tokens.eq(self.padding_idx)
        return x, padding_mask if padding_mask.any() else None
