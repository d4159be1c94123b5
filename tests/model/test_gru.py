"""The recurrent models as a whole."""

import argparse

import pytest
import torch
from helpers import assert_close, encode, make_gru, pad, randomise
from language_models import save_language_model

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.gru_bahdanau import (
    gru_bahdanau,
    gru_bahdanau_iwslt_de_en,
    gru_bahdanau_tiny,
    gru_dot,
    gru_seq2seq,
)

KINDS = {
    "paper": {},
    "dot": {"attention": "dot"},
    "scaled dot": {"attention": "dot", "attention_scaled": True},
    "none": {"attention": "none"},
    "new query": {"attention_query": "new"},
    "input feeding": {"attention_query": "new", "input_feeding": True},
    "coverage": {"coverage": True},
    "coverage, new query": {"coverage": True, "attention_query": "new"},
    "deep": {"encoder_layers": 2, "decoder_layers": 3},
    "deep, new query, layer norm": {"decoder_layers": 2, "attention_query": "new", "layer_norm": True},
}
LINES = ["the old man sees a small dog .", "a dog", "", "red apple eats a house"]
PREFIXES = ["a big house", "the dog eats a red apple", "runs", "old man sees"]


WITH_BERT = {
    "BERT": {"bert_branch_weights": "0.7,0.2"},
    "BERT, new query, mix": {"attention_query": "new", "input_feeding": True, "bert_layer": "mix"},
    "BERT, no attention": {"attention": "none"},
    "BERT, coverage, deep": {"coverage": True, "decoder_layers": 2, "bert_mask_special_tokens": True},
}


@pytest.fixture(params=[*KINDS, *WITH_BERT])
def model(request, dictionary, bert_dir):
    kind = KINDS[request.param] if request.param in KINDS else {**WITH_BERT[request.param], "bert_model": bert_dir}
    result = make_gru(dictionary, **kind)
    randomise(result)
    result.kind = kind
    return result.double().eval()


def batch(dictionary, rows=slice(None), left=True):
    source = pad([encode(dictionary, line) for line in LINES[rows]], dictionary.pad(), left)
    targets = [encode(dictionary, line) for line in PREFIXES[rows]]
    return source, pad([torch.cat([t[-1:], t[:-1]]) for t in targets], dictionary.pad(), left=False)


def literal_alpha(attention, kind, query, annotations, so_far):
    """alpha over the annotations, (S,), for one query."""
    q, keys = attention.query_proj(query), attention.key_proj(annotations)
    if kind.get("attention") == "dot":
        energies = keys @ q * (len(q) ** -0.5 if kind.get("attention_scaled") else 1)
    else:
        covered = torch.outer(so_far, attention.coverage_weight) if kind.get("coverage") else 0
        energies = torch.tanh(q + keys + covered) @ attention.v
    return torch.softmax(energies, 0)


def with_bert(decoder, kind, own, query, encoder_out):
    """The context: that of the annotations, *own*, beside that of BERT's states."""
    bert = decoder.bert_attention
    if bert is None:
        return own
    states, hidden = encoder_out["bert_out"][0][0], encoder_out["bert_padding_mask"][0][0]
    energies = torch.tanh(bert.query_proj(query) + bert.key_proj(states)) @ bert.v
    beta = torch.softmax(energies.masked_fill(hidden, -torch.inf), 0)
    w_own, w_bert = (float(w) for w in kind.get("bert_branch_weights", "0.5,0.5").split(","))
    return w_own * own + w_bert * (beta @ decoder.bert_value_proj(states))


def literal(model, kind, line, prefix):
    """One sentence, step by step, by the equations of appendix A.2.2; returns logits (T, V) and alpha (T, S)."""
    decoder, cell, attention = model.decoder, model.decoder.cell, model.decoder.attention
    encoder_out = model.encoder(line.unsqueeze(0))
    annotations, summary = encoder_out["encoder_out"][0][:, 0], encoder_out["final_states"][0][0]
    begin = summary if attention is None else summary[len(summary) // 2 :]
    states = list(torch.tanh(decoder.initial_proj(begin)).chunk(1 + len(decoder.upper_layers)))
    so_far, context, logits, alphas = torch.zeros(len(line)).double(), torch.zeros_like(summary), [], []
    new_query = kind.get("attention_query") == "new"

    def read(query):
        own = summary
        if attention is not None:
            alphas.append(literal_alpha(attention, kind, query, annotations, so_far))
            own = alphas[-1] @ annotations
        return with_bert(decoder, kind, own, query, encoder_out)

    for word in prefix:
        embedded, before = decoder.embed_tokens(word), list(states)
        if not new_query:
            context = read(states[0])
        inputs = cell.input_proj(embedded)
        if not new_query or kind.get("input_feeding"):
            inputs = inputs + cell.context_proj(context)
        states[0] = cell(inputs, cell.gate_proj(states[0]), states[0])
        for i, layer in enumerate(decoder.upper_layers):
            states[i + 1] = layer(states[i].view(1, 1, -1), states[i + 1].view(1, 1, -1))[0].view(-1)
        if new_query:
            context = read(states[0])
        so_far = sum(alphas, torch.zeros(len(line)).double())
        top = states[-1] if attention is None or new_query else before[-1]
        logits.append(
            decoder.output_projection(decoder.deep_output(top, embedded, decoder.deep_output.context_proj(context)))
        )
    return torch.stack(logits), torch.stack(alphas) if alphas else None


def test_the_whole_decoder_is_the_equations_step_by_step(model, dictionary):
    for row, line in enumerate(LINES):
        source, target = encode(dictionary, line), batch(dictionary, slice(row, row + 1))[1][0]
        logits, extra = model(source.unsqueeze(0), None, target.unsqueeze(0))
        expected, alphas = literal(model, model.kind, source, target)
        assert_close(logits[0], expected, atol=1e-10)
        if alphas is None:
            assert extra["attn"] == [None]
        else:
            assert_close(extra["attn"][0][0], alphas, atol=1e-10)


@pytest.mark.parametrize("left", [True, False])
def test_a_sentence_alone_and_in_a_batch_has_the_same_logits_and_attention(model, dictionary, left):
    source, target = batch(dictionary, left=left)
    together, extra = model(source, None, target)
    for i in range(len(LINES)):
        alone_source, alone_target = batch(dictionary, slice(i, i + 1))
        alone, own = model(alone_source, None, alone_target)
        assert_close(together[i, : alone.size(1)], alone[0], atol=1e-10)
        if extra["attn"][0] is not None:  # at the places of the source, wherever the padding is
            kept = source[i].ne(dictionary.pad())
            assert_close(extra["attn"][0][i, : alone.size(1)][:, kept], own["attn"][0][0], atol=1e-10)
            assert not extra["attn"][0][i][:, ~kept].any()


def test_step_by_step_decoding_equals_the_full_forward_pass_through_a_beam_search(model, dictionary):
    source, target = batch(dictionary, slice(0, 3))
    beams = torch.arange(3).repeat_interleave(2)
    source, target = source[beams], target[beams].clone()
    target[1::2] = target[1::2].roll(1, dims=1)
    encoder_out = model.encoder.reorder_encoder_out(model.encoder(source[::2]), beams)
    assert encoder_out["final_states"][0].size(0) == 3  # once for a sentence
    state = {}
    for t in range(2):
        step, _ = model.decoder(target[:, : t + 1], encoder_out=encoder_out, incremental_state=state)
        assert_close(step[:, 0], model(source, None, target)[0][:, t], atol=1e-10)
    # beams change places; the middle sentence is done; an order that no beam search has
    for t, order in enumerate(([1, 0, 2, 2, 5, 4], [1, 0, 4, 4], [3, 0, 1])):
        order = torch.tensor(order)
        source, target = source[order], target[order]
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        model.decoder.reorder_incremental_state_scripting(state, order)
        step, _ = model.decoder(target[:, : t + 3], encoder_out=encoder_out, incremental_state=state)
        full, _ = model(source, None, target)
        assert_close(step[:, 0], full[:, t + 2], atol=1e-10)


@pytest.mark.parametrize(("u", "used"), [(0.1, ["attn"]), (0.5, ["attn", "bert_attn"]), (0.9, ["bert_attn"])])
def test_drop_net_takes_one_context_whole_and_every_parameter_gets_a_gradient(
    dictionary, bert_dir, monkeypatch, u, used
):
    model = make_gru(dictionary, bert_model=bert_dir, bert_drop_net=0.6, bert_layer="mix", layer_norm=True).train()
    randomise(model)
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    source, target = batch(dictionary)
    logits, extra = model(source, None, target)
    assert [name for name in ("attn", "bert_attn") if extra[name][0] is not None] == used
    logits.sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    alone = {(0.1): (1.0, 0.0), (0.5): (0.5, 0.5), (0.9): (0.0, 1.0)}[u]
    model.decoder.branch_weights = alone
    assert_close(model.eval()(source, None, target)[0], logits, atol=1e-5)


def test_cached_states_give_the_same_logits(dictionary, bert_dir):
    model = make_gru(dictionary, bert_model=bert_dir).eval()
    source, target = batch(dictionary)
    bert_tokens = model.encoder.bridge.bert_tokens(source)
    bert_out, _ = model.encoder.bert(bert_tokens)
    expected, _ = model(source, None, target)
    actual, _ = model(source, None, target, bert_tokens=bert_tokens, bert_out=bert_out)
    assert_close(actual, expected)


def test_flags_of_bert_without_bert_are_refused(dictionary):
    with pytest.raises(BertFusedError) as caught:
        make_gru(dictionary, bert_drop_net=0.3, bert_layer="2")
    assert sorted(error.split()[0] for error in caught.value.errors) == ["--bert-drop-net", "--bert-layer"]


@pytest.mark.parametrize("left", [True, False])
def test_annotations_are_those_of_torchs_gru_and_the_summary_is_their_two_ends(dictionary, left):
    encoder = make_gru(dictionary).eval().encoder
    source, _ = batch(dictionary, left=left)
    encoder_out = encoder(source)
    for i, line in enumerate(LINES):
        tokens = encode(dictionary, line)
        expected, _ = encoder.layers[0](encoder.embed_tokens(tokens).unsqueeze(0))
        own = encoder_out["encoder_out"][0][source[i].ne(dictionary.pad()), i]
        assert_close(own, expected[0])
        ends = torch.cat([expected[0, -1, :5], expected[0, 0, 5:]])
        assert_close(encoder_out["final_states"][0][i], ends)


def test_every_parameter_gets_a_gradient(model, dictionary):
    source, target = batch(dictionary)
    model.train()(source, None, target)[0].sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_reordered_encoder_output_equals_that_of_reordered_sentences(model, dictionary):
    source, _ = batch(dictionary)
    order = torch.tensor([2, 0, 0, 3, 1])
    reordered = model.encoder.reorder_encoder_out(model.encoder(source), order)
    permuted = model.encoder(source[order])
    for key in ("encoder_out", "encoder_padding_mask", "final_states"):
        assert_close(reordered[key][0], permuted[key][0])


def test_save_and_load(dictionary, tmp_path):
    first, second = make_gru(dictionary), make_gru(dictionary)
    torch.save(first.state_dict(), tmp_path / "model.pt")
    second.load_state_dict(torch.load(tmp_path / "model.pt"), strict=True)
    source, target = batch(dictionary)
    assert torch.equal(first.eval()(source, None, target)[0], second.eval()(source, None, target)[0])


def test_a_row_of_padding_alone_is_finite(dictionary):
    model = make_gru(dictionary)
    source, target = batch(dictionary)
    source = torch.cat([source, torch.full_like(source[:1], dictionary.pad())])
    target = torch.cat([target, target[:1]])
    logits, _ = model(source, None, target)
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_the_papers_initialisation(dictionary):
    big = {"encoder_hidden_size": 60, "decoder_hidden_size": 70, "encoder_embed_dim": 80, "decoder_embed_dim": 90}
    model = make_gru(dictionary, rnn_init="paper", **big)
    attention, cell = model.decoder.attention, model.decoder.cell
    for block in (*cell.gate_proj.weight.chunk(2), cell.candidate_proj.weight):
        assert_close(block @ block.T, torch.eye(70), atol=1e-5)
    for block in model.encoder.layers[0].weight_hh_l0_reverse.chunk(3):
        assert_close(block @ block.T, torch.eye(60), atol=1e-5)
    for matrix, std in ((attention.query_proj.weight, 0.001), (attention.key_proj.weight, 0.001)):
        assert abs(matrix.std().item() / std - 1) < 0.1
    for matrix in (cell.input_proj.weight, model.decoder.embed_tokens.weight, model.decoder.output_projection.weight):
        assert abs(matrix.std().item() / 0.01 - 1) < 0.15
    assert not attention.v.any()
    assert not cell.input_proj.bias.any()
    assert not model.encoder.layers[0].bias_ih_l0.any()
    modern = make_gru(dictionary, **big)
    assert modern.decoder.attention.v.any()
    assert not modern.encoder.embed_tokens.weight[dictionary.pad()].any()


def test_embeddings_of_another_width_are_refused(dictionary, tmp_path):
    (tmp_path / "dict.txt").write_text("dog 12\nman 3\n")
    with pytest.raises(BertFusedError, match=r"--decoder-embed-path .*dict.txt must hold a vector of 7 numbers"):
        make_gru(dictionary, decoder_embed_path=str(tmp_path / "dict.txt"))


@pytest.mark.parametrize("bert", [False, True])
def test_without_attention_there_are_no_annotations_to_normalise(dictionary, bert_dir, bert):
    options = {"bert_model": bert_dir} if bert else {}
    model = make_gru(dictionary, attention="none", layer_norm=True, **options).train()
    source, target = batch(dictionary)
    model(source, None, target)[0].sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_a_checkpoint_of_another_bert_is_named(dictionary, bert_dir, tmp_path):
    save_language_model("DistilBERT", tmp_path)
    tuned, frozen = (make_gru(dictionary, bert_model=bert_dir, bert_finetune=flag) for flag in (True, False))
    with pytest.raises(BertFusedError, match=r"trained with --bert-finetune, this model is built without it; add"):
        frozen.load_state_dict(tuned.state_dict())
    with pytest.raises(BertFusedError, match=r"trained without --bert-finetune, this model is built with it; leave"):
        tuned.load_state_dict(frozen.state_dict())
    other = make_gru(dictionary, bert_model=str(tmp_path), bert_finetune=True)
    with pytest.raises(BertFusedError, match=r"holds another BERT than --bert-model"):
        other.load_state_dict(tuned.state_dict())


def test_embeddings_from_a_file_and_tied_ones(dictionary, tmp_path):
    (tmp_path / "vectors.txt").write_text("2 7\n" + "dog " + "0.5 " * 7 + "\nman " + "0.25 " * 7 + "\n")
    model = make_gru(dictionary, decoder_embed_path=str(tmp_path / "vectors.txt"))
    assert model.decoder.embed_tokens.weight[dictionary.index("dog")].tolist() == [0.5] * 7
    tied = make_gru(dictionary, decoder_out_embed_dim=7, share_decoder_input_output_embed=True)
    assert tied.decoder.output_projection.weight is tied.decoder.embed_tokens.weight
    shared = make_gru(dictionary, decoder_out_embed_dim=7, encoder_embed_dim=7, share_all_embeddings=True)
    assert shared.encoder.embed_tokens.weight is shared.decoder.output_projection.weight


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        (gru_bahdanau, {"rnn_init": "paper"}),
        (gru_dot, {"attention": "dot"}),
        (gru_seq2seq, {"attention": "none"}),
        (gru_bahdanau_iwslt_de_en, {"encoder_embed_dim": 256, "decoder_hidden_size": 512, "dropout": 0.3}),
        (gru_bahdanau_tiny, {"encoder_embed_dim": 128, "decoder_hidden_size": 256, "share_all_embeddings": True}),
    ],
)
def test_presets(preset, expected):
    args = argparse.Namespace(dropout=0.3)
    preset(args)
    assert {**vars(args), **expected} == vars(args)
    own = argparse.Namespace(**{name: "own" for name in expected})
    preset(own)
    assert all(getattr(own, name) == "own" for name in expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder_hidden_size": 0}, r"--decoder-hidden-size must be at least 1, got 0"),
        ({"dropout": 1.0}, r"--dropout must be in \[0, 1\), got 1.0"),
        ({"word_dropout": float("nan")}, r"--word-dropout must be in \[0, 1\), got nan"),
        ({"attention_scaled": True}, r"--attention-scaled is for --attention dot; leave it out"),
        ({"attention": "dot", "coverage": True}, r"--coverage is for --attention additive"),
        ({"input_feeding": True}, r"--input-feeding is for --attention-query new"),
        ({"attention": "none", "attention_query": "new"}, r"--attention-query new is for a model with attention"),
        ({"share_decoder_input_output_embed": True}, r"needs --decoder-out-embed-dim equal to --decoder-embed-dim"),
        ({"bert_model": "nowhere/", "bert_max_tokens": 1}, r"--bert-max-tokens must be at least 3, got 1"),
        ({"bert_model": "nowhere/", "bert_context": -1}, r"--bert-context must be at least 0, got -1"),
        ({"bert_model": "nowhere/", "bert_lr_factor": 5.0}, r"--bert-lr-factor is for --bert-finetune, got 5.0"),
        ({"encoder_embed_path": "nowhere"}, r"--encoder-embed-path nowhere cannot be read .*No such file"),
        ({"bert_model": "nowhere/", "bert_branch_weights": "1"}, r"--bert-branch-weights must be two numbers"),
        ({"bert_model": "nowhere/", "bert_drop_net": 2.0}, r"--bert-drop-net must be in \[0, 1\], got 2.0"),
        ({"share_all_embeddings": True}, r"needs --encoder-embed-dim equal to --decoder-embed-dim, got 6 and 7"),
    ],
)
def test_bad_settings_are_refused(dictionary, options, message):
    with pytest.raises(BertFusedError, match=message):
        make_gru(dictionary, **options)
