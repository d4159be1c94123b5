"""A product with the context is the weighted sum of products with the annotations, for all beams of a sentence."""

import torch
from helpers import assert_close

from bert_fused_plugin.modules.recurrent_attention import AdditiveAttention, DotAttention
from bert_fused_plugin.modules.recurrent_loop import (
    ProjectedMemory,
    WeightedMemory,
    attention_weights,
    projected_context,
)

SENTENCES, BEAMS, S, L, A, N, C, GATES, OUTPUT = 2, 3, 5, 7, 4, 6, 8, 9, 10
ROWS = SENTENCES * BEAMS


def make_memory(length, values, attention):
    mask = torch.zeros(SENTENCES, length, dtype=torch.bool)
    mask[1, -2:] = True
    keys = values[..., :0] if attention is None else attention.key_proj(values)
    return ProjectedMemory(keys, values @ torch.ones(C, GATES), values @ torch.randn(C, OUTPUT), mask)


def test_each_memory_gets_the_queries_of_its_attention_in_their_order():
    attentions = {"attn": DotAttention(N, C, A), "bert_attn": AdditiveAttention(N, C, A)}
    memories = {
        name: WeightedMemory(attention, make_memory(length, torch.randn(SENTENCES, length, C), attention), 1.0)
        for (name, attention), length in zip(attentions.items(), (S, L))
    }
    states = torch.randn(ROWS, N)
    queries = torch.cat([attention.query_proj(states) for attention in attentions.values()], dim=-1)
    alphas = attention_weights(memories, queries)
    for name, attention in attentions.items():
        keys, _, _, mask = memories[name].memory
        for row in range(ROWS):
            sentence = slice(row // BEAMS, row // BEAMS + 1)
            query = attention.query_proj(states[row]).view(1, 1, A)
            assert_close(alphas[name][row], attention(query, keys[sentence], mask[sentence])[0])


def test_a_memory_without_attention_is_read_whole():
    memory = make_memory(1, torch.randn(SENTENCES, 1, C), None)
    alphas = attention_weights({"attn": WeightedMemory(None, memory, 1.0)}, torch.randn(ROWS, 0))
    assert torch.equal(alphas["attn"], torch.ones(ROWS, 1, 1))


def test_the_projected_context_is_the_weighted_sum_over_positions_and_memories():
    values = {"attn": torch.randn(SENTENCES, S, C), "bert_attn": torch.randn(SENTENCES, L, C)}
    alphas = {name: torch.rand(ROWS, 2, value.size(1)) for name, value in values.items()}
    memories = {
        name: WeightedMemory(None, make_memory(value.size(1), value, None), weight)
        for (name, value), weight in zip(values.items(), (0.7, 0.2))
    }
    for field, width in (("gate_values", GATES), ("output_values", OUTPUT)):
        context = projected_context(memories, alphas, field)
        assert context.shape == (ROWS, 2, width)
        for row in range(ROWS):
            expected = torch.zeros(2, width)
            for name, weight in (("attn", 0.7), ("bert_attn", 0.2)):
                products = getattr(memories[name].memory, field)[row // BEAMS]
                for j in range(products.size(0)):
                    expected += weight * alphas[name][row, :, j, None] * products[j]
            assert_close(context[row], expected, atol=1e-5)
