"""The parts of the recurrent decoder against literal loops over the paper's equations (Bahdanau et al. 2015)."""

import math

import pytest
import torch
from helpers import assert_close, randomise
from torch.autograd import gradcheck

from bert_fused_plugin.modules.beam_order import sentences_to_keep
from bert_fused_plugin.modules.conditional_gru import ConditionalGru
from bert_fused_plugin.modules.deep_output import DeepOutput
from bert_fused_plugin.modules.recurrent_attention import AdditiveAttention, DotAttention
from bert_fused_plugin.modules.sequence_dropout import SequenceDropout, WordDropout

B, K, S, A, N, M, C = 2, 3, 5, 4, 6, 7, 8
PAD = torch.tensor([[False] * S, [True] * 2 + [False] * (S - 2)])


def made(module):
    module = module.double()
    randomise(module)
    return module


def states(*sizes):
    return torch.randn(*sizes, dtype=torch.double)


def softmax(energies, masked):
    exps = [0.0 if hidden else math.exp(e) for e, hidden in zip(energies, masked)]
    return torch.tensor([e / sum(exps) for e in exps], dtype=torch.double)


@pytest.mark.parametrize("coverage", [False, True])
def test_additive_attention_is_the_equation(coverage):
    attention = made(AdditiveAttention(N, C, A, coverage))
    s, h, so_far = states(B, K, N), states(B, S, C), states(B, K, S).abs()
    actual = attention(attention.query_proj(s), attention.key_proj(h), PAD, so_far)
    for b in range(B):
        for k in range(K):
            energies = []
            for j in range(S):
                inside = attention.query_proj.weight @ s[b, k] + attention.key_proj.weight @ h[b, j]
                if coverage:
                    inside = inside + attention.coverage_weight * so_far[b, k, j]
                energies.append(torch.dot(attention.v, torch.tanh(inside)).item())
            assert_close(actual[b, k], softmax(energies, PAD[b]), atol=1e-12)


@pytest.mark.parametrize("scaled", [False, True])
def test_dot_attention_is_the_equation(scaled):
    attention = made(DotAttention(N, C, A, scaled))
    s, h = states(B, K, N), states(B, S, C)
    actual = attention(attention.query_proj(s), attention.key_proj(h), PAD)
    for b in range(B):
        for k in range(K):
            q = attention.query_proj.weight @ s[b, k]
            energies = [torch.dot(attention.key_proj.weight @ h[b, j], q).item() for j in range(S)]
            energies = [energy / math.sqrt(A) for energy in energies] if scaled else energies
            assert_close(actual[b, k], softmax(energies, PAD[b]), atol=1e-12)


def test_the_recurrent_unit_is_the_equation():
    cell = made(ConditionalGru(M, C, N))
    e, c, s = states(B, M), states(B, C), states(B, N)
    actual = cell(cell.input_proj(e) + cell.context_proj(c), cell.gate_proj(s), s)
    w, bias, ctx = cell.input_proj.weight, cell.input_proj.bias, cell.context_proj.weight
    (w_z, w_r, w_s), (b_z, b_r, b_s), (c_z, c_r, c_s) = w.chunk(3), bias.chunk(3), ctx.chunk(3)
    u_z, u_r = cell.gate_proj.weight.chunk(2)
    for b in range(B):
        z = torch.sigmoid(w_z @ e[b] + u_z @ s[b] + c_z @ c[b] + b_z)
        r = torch.sigmoid(w_r @ e[b] + u_r @ s[b] + c_r @ c[b] + b_r)
        new = torch.tanh(w_s @ e[b] + cell.candidate_proj.weight @ (r * s[b]) + c_s @ c[b] + b_s)
        assert_close(actual[b], (1 - z) * s[b] + z * new, atol=1e-12)


def normed(x, norm):
    return (x - x.mean()) / torch.sqrt(x.var(unbiased=False) + 1e-5) * norm.weight + norm.bias


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_deep_output_is_the_equation(layer_norm):
    output = made(DeepOutput(N, M, C, 5, layer_norm))
    inputs = [states(B, n) for n in (N, M, C)]
    actual = output(inputs[0], inputs[1], output.context_proj(inputs[2]))
    for b in range(B):
        s, e, c = (x[b] for x in inputs)
        if layer_norm:
            s, e = normed(s, output.state_norm), normed(e, output.embed_norm)
        hidden = (
            output.state_proj.weight @ s
            + output.state_proj.bias
            + output.embed_proj.weight @ e
            + output.context_proj.weight @ c
        )
        assert_close(actual[b], torch.stack([hidden[2 * i : 2 * i + 2].max() for i in range(5)]), atol=1e-12)


def test_gradients():
    def leaf(*sizes):
        return states(*sizes).requires_grad_()

    for attention in (AdditiveAttention(N, C, A), AdditiveAttention(N, C, A, True), DotAttention(N, C, A)):
        attention = made(attention)
        given = (leaf(B, K, A), leaf(B, S, A), leaf(B, K, S))
        assert gradcheck(lambda q, k, cov, a=attention: a(q, k, PAD, cov) + 0 * cov, given)
    additive = made(AdditiveAttention(N, C, A))
    weights = torch.randn(B, K, S, dtype=torch.double)

    def by_v(v):
        additive.v.data = v.data
        return (additive(q, k, PAD) * weights).sum()

    q, k = states(B, K, A), states(B, S, A)
    (additive(q, k, PAD) * weights).sum().backward()
    steps = 1e-6 * torch.eye(A, dtype=torch.double)
    v = additive.v.detach().clone()
    numeric = torch.stack([(by_v(v + step) - by_v(v - step)) / 2e-6 for step in steps])
    assert_close(additive.v.grad, numeric.detach(), atol=1e-7)
    cell, output = made(ConditionalGru(M, C, N)), made(DeepOutput(N, M, C, 5))
    assert gradcheck(cell, (leaf(B, 3 * N), leaf(B, 2 * N), leaf(B, N)))
    assert gradcheck(output, (leaf(B, N), leaf(B, M), leaf(B, 10)))


def test_dropout_of_units_and_of_words():
    x = torch.ones(40, 50, 6)
    plain, locked, words = SequenceDropout(0.25).train(), SequenceDropout(0.25, True).train(), WordDropout(0.25).train()
    for dropout in (plain, locked, words):
        out = dropout(x)
        assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
        assert abs(out.mean().item() - 1) < 0.15
        assert torch.equal(dropout.eval()(x), x)
    for dropout in (SequenceDropout(0.0).train(), SequenceDropout(0.0, True).train(), WordDropout(0.0).train()):
        assert dropout(x) is x  # no work, and no random numbers
    assert (locked.train()(x).std(dim=1) == 0).all()  # the same units at all positions
    assert (plain.train()(x).std(dim=1) > 0).any()
    assert (words.train()(x).std(dim=2) == 0).all()  # whole words
    assert (words(x).std(dim=1) > 0).any()


@pytest.mark.parametrize(
    ("new_order", "sentences", "beam_size", "keep", "size"),
    [
        ([0, 0, 0, 1, 1, 1], 2, 1, None, 3),  # each sentence gets its beams
        ([1, 0, 2, 4, 5, 5], 2, 3, None, 3),  # beams of a sentence change places
        ([5, 3, 3], 2, 3, [1], 3),  # the first sentence is done
        ([0, 1, 2, 6, 8, 7], 3, 3, [0, 2], 3),
        ([1, 0], 2, 1, [1, 0], 1),  # without beams
        ([0, 1], 2, 1, None, 1),
        ([2, 0, 0, 1, 2], 3, 1, [2, 0, 0, 1, 2], 1),  # no order of a beam search
        ([0, 3, 1, 4, 2, 5], 2, 3, [0, 1, 0, 1, 0, 1], 1),
        ([], 2, 3, [], 3),
    ],
)
def test_sentences_are_kept_once_for_their_beams(new_order, sentences, beam_size, keep, size):
    actual, actual_size = sentences_to_keep(torch.tensor(new_order, dtype=torch.long), sentences, beam_size)
    assert actual_size == size
    assert (None if actual is None else actual.tolist()) == keep
    # what a tensor of each sentence, seen by its rows, becomes
    rows = torch.arange(sentences).repeat_interleave(beam_size)[new_order]
    kept = torch.arange(sentences) if actual is None else torch.arange(sentences)[actual]
    assert torch.equal(kept.repeat_interleave(actual_size), rows)


def test_dropout_is_retained_in_translation_by_name():
    x = torch.ones(4, 5, 6)
    for dropout in (SequenceDropout(0.5).eval(), WordDropout(0.5).eval()):
        dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=["another"])
        assert torch.equal(dropout(x), x)
        dropout.make_generation_fast_("", retain_dropout=True, retain_dropout_modules=[type(dropout).__name__])
        assert not torch.equal(dropout(x), x)


def test_the_vectors_of_additive_attention_begin_small():
    attention = AdditiveAttention(N, C, 1000, coverage=True)
    for vector in (attention.v, attention.coverage_weight):
        assert vector.min().item() == pytest.approx(-0.1, abs=0.01)
        assert vector.max().item() == pytest.approx(0.1, abs=0.01)
