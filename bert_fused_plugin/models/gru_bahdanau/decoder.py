"""The recurrent decoder with attention (Bahdanau et al. 2015, section 3.1 and appendix A.2.2)."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn
from torch.nn.functional import linear

from bert_fused_plugin.models.gru_bahdanau.config import GruConfig
from bert_fused_plugin.models.gru_bahdanau.decoder_cache import StateWeights, Step, from_cache, reordered, to_cache
from bert_fused_plugin.models.search_scores import SearchScores
from bert_fused_plugin.modules.attention_memory import (
    ProjectedMemory,
    WeightedMemory,
    attention_weights,
    projected_context,
)
from bert_fused_plugin.modules.conditional_gru import ConditionalGru
from bert_fused_plugin.modules.deep_output import DeepOutput
from bert_fused_plugin.modules.drop_net import DropNet
from bert_fused_plugin.modules.recurrent_attention import (
    AdditiveAttention,
    RecurrentAttention,
    build_recurrent_attention,
)
from bert_fused_plugin.modules.recurrent_loop import fused_loop
from bert_fused_plugin.modules.sequence_dropout import SequenceDropout, WordDropout
from bert_fused_plugin.modules.zero_gradients import with_zero_gradients

IncrementalState = Dict[str, Dict[str, Optional[Tensor]]]
Extra = Dict[str, Optional[List[Tensor]]]


class GruDecoder(SearchScores, FairseqIncrementalDecoder):
    """Attention, a gated recurrent unit and a deep output, step by step.

    The loop over the steps computes only what depends on the previous state.  The products with the context come from
    a `ProjectedMemory`.

    With BERT a second attention, which is always additive, reads BERT's states.  The context is then the mean of both
    contexts, c~_i = 1/2 (c_i + sum_j beta_ij V_B H_B,j), under drop-net, as in the fused layers of Zhu et al. (2020,
    section 4).

    Args:
        cfg: the model's flags.
        dictionary: the target dictionary.
        embed_tokens: the target embeddings.
        context_dim: the width 2n of the annotations.
        bert_dim: the width D of BERT's states; None for a decoder without BERT.
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
        self.query_is_new = str(cfg.attention_query) == "new"
        self.input_feeding = cfg.input_feeding
        self.coverage = cfg.coverage
        self.embed_tokens = embed_tokens
        self.word_dropout = WordDropout(cfg.word_dropout)
        self.dropout_module = SequenceDropout(cfg.dropout, cfg.variational_dropout)
        self.attention: Optional[RecurrentAttention] = build_recurrent_attention(
            str(cfg.attention), hidden, context_dim, hidden, {"attention_map": str(cfg.attention_map)}
        )
        self.bert_attention: Optional[RecurrentAttention] = None
        if bert_dim is not None:
            bert_map = str(cfg.attention_map)
            self.bert_attention = AdditiveAttention(hidden, bert_dim, hidden, attention_map=bert_map)
            self.bert_value_proj = nn.Linear(bert_dim, context_dim)
            self.drop_net = DropNet(cfg.drop_net_rate())
            self.branch_weights = cfg.branch_weights()
        # s_0 = tanh(W_s backward h_1); without attention s_0 depends on the whole summary
        summary_dim = context_dim if self.attention is None else context_dim // 2
        self.initial_proj = nn.Linear(summary_dim, hidden * cfg.decoder_layers)
        # where the new state is the query, the context of a step is not known yet when its gates are computed
        no_context = self.query_is_new and not self.input_feeding
        self.cell = ConditionalGru(cfg.decoder_embed_dim, 0 if no_context else context_dim, hidden)
        self.upper_layers = nn.ModuleList(nn.GRU(hidden, hidden) for _ in range(cfg.decoder_layers - 1))
        self.deep_output = DeepOutput(
            hidden, cfg.decoder_embed_dim, context_dim, cfg.decoder_out_embed_dim, cfg.layer_norm
        )
        self.output_projection = nn.Linear(cfg.decoder_out_embed_dim, len(dictionary), bias=False)
        if cfg.share_decoder_input_output_embed or cfg.share_all_embeddings:
            self.output_projection.weight = embed_tokens.weight

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Dict[str, List[Any]],
        incremental_state: Optional[IncrementalState] = None,
        features_only: bool = False,
        **unused: Any,
    ) -> Tuple[Tensor, Extra]:
        """Return the logits, (B, T, V), and ``extra``, which holds the attention.

        ``extra["attn"]`` is a list of alpha, (B, T, S); ``extra["bert_attn"]`` is a list of beta, (B, T, L).  Either
        is None where there is no such attention or where drop-net has left it out.

        Args:
            prev_output_tokens: the target tokens so far, (B, T).
            encoder_out: the encoder's output; a sentence in it may belong to several rows, which are its beams.
            incremental_state: the caches of incremental decoding, which reads only the last of *prev_output_tokens*;
                None outside of it.
            features_only: whether to return t, (B, T, l), in place of the logits.
            unused: further arguments of fairseq, which are ignored.
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
        cached = None if incremental_state is None else self.get_incremental_state(incremental_state, "gru")
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        embedded = self.dropout_module(self.word_dropout(self.embed_tokens(prev_output_tokens)))
        if cached is None:
            memories = self._memories(encoder_out)
            begin = self._first_step(encoder_out["final_states"][0], memories[0], len(prev_output_tokens))
        else:
            memories, weights, begin = from_cache(cached)
        weighted_memories, unused_tensors = self._weigh(memories)
        if cached is None:
            weights = self._state_weights(weighted_memories)

        inputs = self.cell.input_proj(embedded)
        if unused_tensors:
            inputs = with_zero_gradients(inputs, *unused_tensors)
        fused = None
        if torch.is_grad_enabled() and incremental_state is None and not self.query_is_new:
            fused = fused_loop(self.cell, inputs, begin.states[0], weighted_memories)
        # only incremental decoding asks for the end of the last step
        states, attns, end = self._loop(inputs, weighted_memories, weights, begin) if fused is None else (*fused, begin)
        # the layers above the attention read all positions at once: (B, T, n) -> (T, B, n)
        top = states.transpose(0, 1)
        finals = [end.states[0]]
        for layer, initial in zip(self.upper_layers, begin.states[1:]):
            top, final = layer(top, initial.unsqueeze(0).contiguous())
            finals.append(final[0])
        if not self.query_is_new and self.attention is not None:
            top = torch.cat([begin.states[-1:], top[:-1]])  # the paper's readout reads s_{i-1}
        from_context = projected_context(weighted_memories, attns, "output_values")
        x = self.dropout_module(self.deep_output(top.transpose(0, 1), embedded, from_context))
        if incremental_state is not None:
            end = end._replace(states=torch.stack(finals))
            self.set_incremental_state(incremental_state, "gru", to_cache(memories, weights, end))
        if self.attention is None:
            attns.pop("attn", None)
        return x, {name: [attns[name]] if name in attns else None for name in ("attn", "bert_attn")}

    def output_layer(self, features: Tensor, **unused: Any) -> Tensor:
        """Return the logits, (..., V), of *features*, (..., l)."""
        logits: Tensor = self.output_projection(features)
        return logits

    def reorder_incremental_state_scripting(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Reorder what this decoder keeps; fairseq's would look for it in all modules in each step.

        A module that keeps something for the next step must be named here.
        """
        self.reorder_incremental_state(incremental_state, new_order)

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Put the rows of the caches into *new_order*; the memories are kept once for all beams of a sentence."""
        cached = self.get_incremental_state(incremental_state, "gru")
        if cached is not None:
            self.set_incremental_state(incremental_state, "gru", reordered(cached, new_order))

    def max_positions(self) -> int:
        """Return the length of the longest target that the model accepts."""
        return self.max_target_positions

    def _memories(self, encoder_out: Dict[str, List[Any]]) -> List[ProjectedMemory]:
        """Return the memory of the annotations and, with BERT, the memory of its states."""
        padding_mask = encoder_out["encoder_padding_mask"][0]
        if self.attention is None:
            values = encoder_out["final_states"][0].unsqueeze(1)  # one position, the summary c
            memories = [self._memory(values[..., :0], values, padding_mask[:, :1] & False)]
        else:
            values = encoder_out["encoder_out"][0].transpose(0, 1)  # (S, B, 2n) -> (B, S, 2n)
            memories = [self._memory(self.attention.key_proj(values), values, padding_mask)]
        if self.bert_attention is not None:
            bert_out = encoder_out["bert_out"][0]
            keys, values = self.bert_attention.key_proj(bert_out), self.bert_value_proj(bert_out)
            memories.append(self._memory(keys, values, encoder_out["bert_padding_mask"][0]))
        return memories

    def _memory(self, keys: Tensor, values: Tensor, padding_mask: Tensor) -> ProjectedMemory:
        gate_values = values[..., :0] if self.cell.context_proj is None else self.cell.context_proj(values)
        return ProjectedMemory(keys, gate_values, self.deep_output.context_proj(values), padding_mask)

    def _first_step(self, final_states: Tensor, memory: ProjectedMemory, rows: int) -> Step:
        """Return the start of the first step, s_0 = tanh(W_s backward h_1), for each of the *rows*."""
        initial = torch.tanh(self.initial_proj(final_states[:, -self.initial_proj.in_features :]))
        initial = initial.repeat_interleave(rows // len(final_states), dim=0)
        states = torch.stack(initial.chunk(1 + len(self.upper_layers), dim=-1))
        input_feed = initial.new_zeros(rows, memory.gate_values.size(-1) if self.input_feeding else 0)
        return Step(states, input_feed, initial.new_zeros(rows, memory.keys.size(1) if self.coverage else 0))

    def _state_weights(self, memories: Dict[str, WeightedMemory]) -> StateWeights:
        """Return the weights by which the loop multiplies the states, for the memories that this pass reads."""
        queries = [m.attention.query_proj.weight for m in memories.values() if m.attention is not None]
        if self.query_is_new:
            return StateWeights(self.cell.gate_proj.weight, torch.cat(queries))
        return StateWeights(torch.cat([self.cell.gate_proj.weight, *queries]), None)

    def _weigh(self, memories: List[ProjectedMemory]) -> Tuple[Dict[str, WeightedMemory], List[Tensor]]:
        """Return the memories that this pass reads, under drop-net, and the tensors that would not get a gradient."""
        nmt = WeightedMemory(self.attention, memories[0], 1.0)
        if self.bert_attention is None:
            return {"attn": nmt}, []
        bert = WeightedMemory(self.bert_attention, memories[1], 1.0)
        nmt_alone, bert_alone = self.drop_net(1)
        if nmt_alone:
            return {"attn": nmt}, [*self.bert_attention.parameters(), *memories[1][:3]]
        if bert_alone:
            parameters = [] if self.attention is None else self.attention.parameters()
            return {"bert_attn": bert}, [*parameters, *memories[0][:3]]
        w_nmt, w_bert = self.branch_weights
        return {"attn": nmt._replace(weight=w_nmt), "bert_attn": bert._replace(weight=w_bert)}, []

    def _loop(
        self, inputs: Tensor, memories: Dict[str, WeightedMemory], weights: StateWeights, begin: Step
    ) -> Tuple[Tensor, Dict[str, Tensor], Step]:
        """Return the states, (B, T, n), the attention to each memory, (B, T, S or L), and the start of the next step.

        Args:
            inputs: the products W e for the gates, (B, T, 3n).
            memories: the memories that this pass reads.
            weights: the weights of the products with the states.
            begin: the start of the first step.
        """
        hidden = self.cell.hidden_dim
        state, input_feed, coverage = begin.states[0], begin.input_feed, begin.coverage
        states: List[Tensor] = []
        alphas: Dict[str, List[Tensor]] = {name: [] for name in memories}
        for step_inputs in inputs.unbind(1):
            projected = linear(state, weights.old)
            if weights.new is not None:
                gates = step_inputs + input_feed if self.input_feeding else step_inputs
                state = self.cell(gates, projected, state)
                step_alphas = attention_weights(memories, linear(state, weights.new), coverage)
                if self.input_feeding:
                    input_feed = projected_context(memories, step_alphas, "gate_values").squeeze(1)
            else:
                step_alphas = attention_weights(memories, projected[:, 2 * hidden :], coverage)
                gates = step_inputs + projected_context(memories, step_alphas, "gate_values").squeeze(1)
                state = self.cell(gates, projected[:, : 2 * hidden], state)
            states.append(state)
            for name, alpha in step_alphas.items():
                alphas[name].append(alpha)
            if self.coverage and "attn" in memories:
                coverage = coverage + step_alphas["attn"].squeeze(1)
        attns = {name: torch.cat(steps, dim=1) for name, steps in alphas.items()}
        all_states = torch.stack(states, dim=1)
        if input_feed.requires_grad:  # no step reads the context of the last one, and there may be one step only
            all_states = with_zero_gradients(all_states, input_feed)
        return all_states, attns, Step(state.unsqueeze(0), input_feed, coverage)
