"""The recurrent models compute the equations of their papers, step by step."""

import entmax
import pytest
import torch
from helpers import Times, assert_close, encode, make_gru
from model_cases import GRU, GRU_WITH_BERT, LINES, TARGETS


def literal_map(attention, kind, energies):
    """Return the weights of *energies*, (S,), none of which is of padding, by the functions of the package entmax."""
    name = kind.get("attention_map", "softmax")
    if name == "entmax":
        return entmax.entmax_bisect(energies, 1 + torch.sigmoid(attention.attention_map.raw_alpha).item(), dim=0)
    return torch.softmax(energies, 0) if name == "softmax" else vars(entmax)[name](energies, dim=0)


def literal_alpha(attention, kind, query, annotations):
    """Return alpha over the annotations, (S,), for one query."""
    q, keys = attention.query_proj(query), attention.key_proj(annotations)
    energies = keys @ q if kind.get("attention") == "dot" else torch.tanh(q + keys) @ attention.v
    return literal_map(attention, kind, energies)


def with_bert(decoder, kind, nmt, query, encoder_out):
    """Return the context: the mean of *nmt*, the context of the annotations, and the context of BERT's states."""
    bert = decoder.bert_attention
    if bert is None:
        return nmt
    states, hidden = encoder_out["bert_out"][0][0], encoder_out["bert_padding_mask"][0][0]
    energies = torch.tanh(bert.query_proj(query) + bert.key_proj(states)) @ bert.v
    beta = torch.zeros_like(energies)
    beta[~hidden] = literal_map(bert, kind, energies[~hidden])
    w_nmt, w_bert = (float(w) for w in kind.get("bert_branch_weights", "0.5,0.5").split(","))
    return w_nmt * nmt + w_bert * (beta @ decoder.bert_value_proj(states))


def literal(model, kind, line, prefix):
    """Return the logits, (T, V), and alpha, (T, S), of one sentence, step by step by the equations of A.2.2."""
    decoder, cell, attention = model.decoder, model.decoder.cell, model.decoder.attention
    encoder_out = model.encoder(line.unsqueeze(0))
    annotations, summary = encoder_out["encoder_out"][0][:, 0], encoder_out["final_states"][0][0]
    begin = summary if attention is None else summary[len(summary) // 2 :]
    states = list(torch.tanh(decoder.initial_proj(begin)).chunk(1 + len(decoder.upper_layers)))
    logits, alphas = [], []

    def read(query):
        nmt = summary
        if attention is not None:
            alphas.append(literal_alpha(attention, kind, query, annotations))
            nmt = alphas[-1] @ annotations
        return with_bert(decoder, kind, nmt, query, encoder_out)

    for word in prefix:
        embedded, before = 2 * decoder.embed_tokens(word), list(states)
        context = read(states[0])
        inputs = cell.input_proj(embedded) + cell.context_proj(context)
        states[0] = cell(inputs, cell.gate_proj(states[0]), states[0])
        for i, layer in enumerate(decoder.upper_layers):
            states[i + 1] = layer(states[i].view(1, 1, -1), states[i + 1].view(1, 1, -1))[0].view(-1)
        top = states[-1] if attention is None else before[-1]
        output = decoder.deep_output
        logits.append(
            decoder.output_projection(2 * output(top, output.embed_proj(embedded) + output.context_proj(context)))
        )
    return torch.stack(logits), torch.stack(alphas) if alphas else None


@pytest.mark.parametrize("name", [*GRU, *GRU_WITH_BERT])
def test_the_whole_decoder_is_the_equations_step_by_step(dictionary, cases, name):
    model, kind = cases.model(f"gru: {name}").double().eval(), {**GRU, **GRU_WITH_BERT}[name]
    model.decoder.dropout_module = Times(2.0)
    for source, target in ([encode(dictionary, line) for line in pair] for pair in zip(LINES, TARGETS)):
        logits, extra = model(source.unsqueeze(0), None, target.unsqueeze(0))
        expected, alphas = literal(model, kind, source, target)
        assert_close(logits[0], expected, atol=1e-10)
        if alphas is None:
            assert extra["attn"] is None
        else:
            assert_close(extra["attn"][0][0], alphas, atol=1e-10)


@pytest.mark.parametrize("left", [True, False])
def test_annotations_are_those_of_torchs_gru_and_the_summary_is_their_two_ends(dictionary, cases, left):
    encoder = make_gru(dictionary).eval().encoder
    encoder.dropout_module = Times(2.0)
    source, _ = cases.tokens(left=left)
    encoder_out = encoder(source)
    for i, line in enumerate(LINES):
        tokens = encode(dictionary, line)
        expected, _ = encoder.layers[0](2 * encoder.embed_tokens(tokens).unsqueeze(0))
        actual = encoder_out["encoder_out"][0][source[i].ne(dictionary.pad()), i]
        assert_close(actual, 2 * expected[0])
        ends = torch.cat([expected[0, -1, :5], expected[0, 0, 5:]])
        assert_close(encoder_out["final_states"][0][i], ends)
