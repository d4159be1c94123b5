"""The recurrent decoder with attention (Bahdanau et al. 2015, section 3.1 and appendix A.2.2)."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.models import FairseqIncrementalDecoder
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from bert_fused_plugin.models.gru_bahdanau.config import GruConfig
from bert_fused_plugin.modules.drop_net import DropNet
from bert_fused_plugin.modules.recurrent_attention import RECURRENT_ATTENTIONS, AdditiveAttention, RecurrentAttention
from bert_fused_plugin.modules.recurrent_loop import ProjectedMemory, add_context, recurrent_loop, state_weights
from bert_fused_plugin.modules.recurrent_unit import ConditionalGru, DeepOutput
from bert_fused_plugin.modules.zero_gradients import with_zero_gradients

IncrementalState = Dict[str, Any]
Extra = Dict[str, Optional[List[Tensor]]]


class GruDecoder(FairseqIncrementalDecoder):
    """Attention, a gated recurrent unit and a deep output, step by step.

    With BERT a second attention, which is always additive, reads BERT's states.  The context is then the mean of both
    contexts, c~_i = 1/2 (c_i + sum_j beta_ij V_B H_B,j), under drop-net, as in the fused layers of Zhu et al. (2020,
    section 4).  *context_dim* is the width 2n of the annotations, and *bert_dim* is D, or None without BERT.
    """

    def __init__(
        self,
        cfg: GruConfig,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        *,
        context_dim: int,
        bert_dim: Optional[int] = None,
    ) -> None:
        super().__init__(dictionary)
        hidden = cfg.decoder_hidden_size
        self.max_target_positions = cfg.max_target_positions
        self.embed_tokens = embed_tokens
        self.dropout_module = FairseqDropout(cfg.dropout, module_name=type(self).__name__)
        self.attention: Optional[RecurrentAttention] = None
        self.bert_attention: Optional[RecurrentAttention] = None
        build, attention_map = RECURRENT_ATTENTIONS[str(cfg.attention)].build, str(cfg.attention_map)
        if build is not None:
            self.attention = build(hidden, context_dim, hidden, attention_map)
        if bert_dim is not None:
            self.bert_attention = AdditiveAttention(hidden, bert_dim, hidden, attention_map)
            self.bert_value_proj = nn.Linear(bert_dim, context_dim)
            self.drop_net = DropNet(cfg.drop_net_rate())
            self.branch_weights = cfg.branch_weights()
        # s_0 = tanh(W_s backward h_1); without attention s_0 depends on the whole summary
        summary_dim = context_dim if self.attention is None else context_dim // 2
        self.initial_proj = nn.Linear(summary_dim, hidden * cfg.decoder_layers)
        self.cell = ConditionalGru(cfg.decoder_embed_dim, context_dim, hidden)
        self.upper_layers = nn.ModuleList(nn.GRU(hidden, hidden) for _ in range(cfg.decoder_layers - 1))
        self.deep_output = DeepOutput(hidden, cfg.decoder_embed_dim, context_dim, cfg.decoder_out_embed_dim)
        self.output_projection = nn.Linear(cfg.decoder_out_embed_dim, len(dictionary), bias=False)
        if cfg.share_decoder_input_output_embed:
            self.output_projection.weight = embed_tokens.weight

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Dict[str, List[Any]],
        incremental_state: Optional[IncrementalState] = None,
        features_only: bool = False,
        **unused: Any,
    ) -> Tuple[Tensor, Extra]:
        """Return the logits, (B, T, V), and ``extra``, with lists of the attention, or None where there is none.

        ``extra["attn"]`` has alpha, (B, T, S), and ``extra["bert_attn"]`` has beta, (B, T, L).  The arguments are those
        of fairseq's decoders; a sentence of *encoder_out* may belong to several rows of *prev_output_tokens*, its
        beams.  With *features_only* the logits are replaced by t, (B, T, l).
        """
        x, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return (x if features_only else self.output_layer(x)), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Dict[str, List[Any]],
        incremental_state: Optional[IncrementalState] = None,
        **unused: Any,
    ) -> Tuple[Tensor, Extra]:
        """Return t, (B, T, l), and ``extra``; the arguments are those of `forward`."""
        kept: Dict[str, Any] = {}
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
            kept = self.get_incremental_state(incremental_state, "gru") or {}
        embedded = self.dropout_module(self.embed_tokens(prev_output_tokens))
        inputs = self.cell.input_proj(embedded)
        if kept:
            states, from_state, [memories] = kept["states"], kept["from_state"], encoder_out["memories"]
        else:
            memories, unused_tensors = self._memories(encoder_out)
            from_state = state_weights(self.cell, memories)
            states = self._initial_states(encoder_out["final_states"][0], len(prev_output_tokens))
            inputs = with_zero_gradients(inputs, *unused_tensors)
        outputs, attns = recurrent_loop(self.cell, inputs, states[0], memories, from_state)
        # the layers above the attention read all positions at once: (B, T, n) -> (T, B, n)
        top = outputs.transpose(0, 1)
        finals = [top[-1:]]
        for layer, initial in zip(self.upper_layers, states[1:]):
            top, final = layer(top, initial.unsqueeze(0).contiguous())
            finals.append(final)
        if self.attention is not None:  # the readout reads s_{i-1}
            if len(top) > 1:
                top = torch.cat([states[-1:], top[:-1]])
            else:  # in training, DDP needs gradients also of what computes the last state
                top = with_zero_gradients(states[-1:], top) if incremental_state is None else states[-1:]
        inputs = add_context(self.deep_output.embed_proj(embedded), memories, attns, "output_values")
        x = self.dropout_module(self.deep_output(top.transpose(0, 1), inputs))
        if incremental_state is not None:
            kept = {"states": torch.cat(finals) if len(finals) > 1 else finals[0], "from_state": from_state}
            self.set_incremental_state(incremental_state, "gru", kept)
            encoder_out["memories"] = [memories]
        if self.attention is None:
            attns.pop("attn", None)
        return x, {name: [attns[name]] if name in attns else None for name in ("attn", "bert_attn")}

    def output_layer(self, features: Tensor, **unused: Any) -> Tensor:
        """Return the logits, (..., V), of *features*, (..., l)."""
        return self.output_projection(features)

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Put the rows of the states, (layers, B, n), into *new_order*; what they read is in ``encoder_out``."""
        kept: Any = self.get_incremental_state(incremental_state, "gru")
        if kept is not None:
            kept["states"] = kept["states"].index_select(1, new_order)

    # fairseq's would look in all modules in each step; no other one keeps anything for the next step
    reorder_incremental_state_scripting = reorder_incremental_state

    def max_positions(self) -> int:
        """Return the length of the longest target that the model accepts."""
        return self.max_target_positions

    def _memories(self, encoder_out: Dict[str, List[Any]]) -> Tuple[Dict[str, ProjectedMemory], List[Tensor]]:
        """Return the memories that this pass reads, under drop-net, and the tensors that would not get a gradient."""
        nmt_alone, bert_alone = (True, False) if self.bert_attention is None else self.drop_net()
        w_nmt, w_bert = (1.0, 1.0) if nmt_alone or bert_alone else self.branch_weights
        memories: Dict[str, ProjectedMemory] = {}
        unused: List[Tensor] = []
        if not bert_alone:
            memories["attn"] = self._nmt_memory(encoder_out, w_nmt)
        elif self.attention is not None:  # the encoder gets its gradients through the initial states
            unused = [*self.attention.parameters()]
        if self.bert_attention is not None:
            bert_out, padding_mask = encoder_out["bert_out"][0], encoder_out["bert_padding_mask"][0]
            if nmt_alone:
                unused = [bert_out, *self.bert_attention.parameters(), *self.bert_value_proj.parameters()]
            else:
                keys, values = self.bert_attention.key_proj(bert_out), self.bert_value_proj(bert_out)
                memories["bert_attn"] = self._memory(self.bert_attention, w_bert, keys, values, padding_mask)
        return memories, unused

    def _nmt_memory(self, encoder_out: Dict[str, List[Any]], weight: float) -> ProjectedMemory:
        padding_mask = encoder_out["encoder_padding_mask"][0]
        if self.attention is None:
            values = encoder_out["final_states"][0].unsqueeze(1)  # one position, the summary c
            return self._memory(None, weight, values[..., :0], values, padding_mask[:, :1] & False)
        values = encoder_out["encoder_out"][0].transpose(0, 1)  # (S, B, 2n) -> (B, S, 2n)
        return self._memory(self.attention, weight, self.attention.key_proj(values), values, padding_mask)

    def _memory(
        self, attention: Optional[RecurrentAttention], weight: float, keys: Tensor, values: Tensor, padding_mask: Tensor
    ) -> ProjectedMemory:
        context_proj, output_proj = self.cell.context_proj, self.deep_output.context_proj
        return ProjectedMemory(attention, weight, keys, context_proj(values), output_proj(values), padding_mask)

    def _initial_states(self, final_states: Tensor, rows: int) -> Tensor:
        """Return s_0 = tanh(W_s backward h_1) of each layer for each of the *rows*, (layers, B, n)."""
        initial = torch.tanh(self.initial_proj(final_states[:, -self.initial_proj.in_features :]))
        initial = initial.repeat_interleave(rows // len(final_states), dim=0)
        return torch.stack(initial.chunk(1 + len(self.upper_layers), dim=-1))
