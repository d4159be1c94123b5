"""Whole models: what must not change a sentence's translation."""

import pytest
import torch
from helpers import assert_close, encode, pad, randomise

from bert_fused_plugin.modules import cross_attention
from bert_fused_plugin.modules.cross_attention import FoldedMemory
from bert_fused_plugin.modules.fusion import FUSION_KINDS

LINES = [
    "the old man sees a small dog .",
    "a dog runs",
    "play@@ house ? the hou@@ se , the red apple .",
    "",
]
PREFIXES = ["a big house", "the dog eats a red apple", "runs", "old man"]


def batch(dictionary, lines, prefixes, *, left_pad):
    src_tokens = pad([encode(dictionary, line) for line in lines], dictionary.pad(), left_pad)
    targets = [encode(dictionary, line) for line in prefixes]
    prev_output_tokens = pad([torch.cat([t[-1:], t[:-1]]) for t in targets], dictionary.pad(), left=False)
    return src_tokens, prev_output_tokens


PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
IN_LAYERS = {
    **{name: {"bert_fusion": name} for name, kind in FUSION_KINDS.items() if not kind.replaces_embeddings},
    "pre-norm": PRE_NORM,
    "stacked, encoder first": {"bert_fusion": "stacked", "bert_stack_order": "encoder-first", **PRE_NORM},
    "mix": {"bert_layer": "mix"},
    "random layer": {"bert_layer": "random:2"},
    "no encoder layers": {"encoder_layers": 0},
    "sparsemax": {"attention_map": "sparsemax"},
    "entmax15, gated, self-attention too": {
        "bert_fusion": "gated", "attention_map": "entmax15", "self_attention_map": "sparsemax",
    },
    "entmax, stacked, self-attention too": {
        "bert_fusion": "stacked", "attention_map": "entmax", "self_attention_map": "entmax",
    },
}  # fmt: skip
IN_EMBEDDINGS = {
    "embedding": {"bert_fusion": "embedding"},
    "embedding, mix": {"bert_fusion": "embedding", "bert_layer": "mix", "layernorm_embedding": True, **PRE_NORM},
    "embedding, learned positions": {"bert_fusion": "embedding", "encoder_learned_pos": True},
    "decoder on BERT": {"bert_fusion": "embedding", "encoder_layers": 0},
    "decoder on BERT, entmax": {
        "bert_fusion": "embedding", "encoder_layers": 0, "attention_map": "entmax", "self_attention_map": "entmax15",
    },
}  # fmt: skip
KINDS = {**IN_LAYERS, **IN_EMBEDDINGS}
REORDERED = {
    *("encoder_out", "encoder_padding_mask", "encoder_embedding", "src_lengths", "bert_out", "bert_padding_mask")
}


@pytest.fixture(params=KINDS)
def model(request, build):
    result = build(**KINDS[request.param])
    randomise(result)
    return result.eval()


@pytest.mark.parametrize("left_pad", [False, True])
def test_a_sentence_alone_and_in_a_batch_has_the_same_logits(model, dictionary, left_pad):
    src_tokens, prev_output_tokens = batch(dictionary, LINES, PREFIXES, left_pad=left_pad)
    together, _ = model(src_tokens, None, prev_output_tokens)
    for i in range(len(LINES)):
        alone_src, alone_prev = batch(dictionary, LINES[i : i + 1], PREFIXES[i : i + 1], left_pad=left_pad)
        alone, _ = model(alone_src, None, alone_prev)
        assert_close(together[i, : alone.size(1)], alone[0], atol=1e-5)


def test_step_by_step_decoding_equals_the_full_forward_pass(model, dictionary):
    src_tokens, prev_output_tokens = batch(dictionary, LINES[:2], ["a big old house", "the dog eats a"], left_pad=True)
    full, _ = model(src_tokens, None, prev_output_tokens)
    encoder_out = model.encoder(src_tokens)
    incremental_state = {}
    for t in range(prev_output_tokens.size(1)):
        prefix = prev_output_tokens[:, : t + 1]
        step, _ = model.decoder(prefix, encoder_out=encoder_out, incremental_state=incremental_state)
        assert_close(step[:, 0], full[:, t], atol=1e-5)


def test_reordered_encoder_output_equals_that_of_reordered_sentences(model, dictionary):
    new_order = torch.tensor([2, 0, 0, 1, 2])
    src_tokens, _ = batch(dictionary, LINES[:3], PREFIXES[:3], left_pad=True)
    reordered = model.encoder.reorder_encoder_out(model.encoder(src_tokens), new_order)
    permuted = model.encoder(src_tokens[new_order])
    assert {key for key, tensors in permuted.items() if tensors} - {"beam_size"} == REORDERED
    for key in REORDERED:
        assert_close(reordered[key][0], permuted[key][0])


def test_states_are_kept_once_for_the_beams_of_a_sentence(model, dictionary):
    src_tokens, _ = batch(dictionary, LINES[:2], PREFIXES[:2], left_pad=True)
    first = model.encoder(src_tokens)
    beams = model.encoder.reorder_encoder_out(first, torch.tensor([0, 0, 1, 1]))
    swapped = model.encoder.reorder_encoder_out(beams, torch.tensor([1, 1, 3, 2]))
    assert swapped["encoder_out"][0] is beams["encoder_out"][0] is first["encoder_out"][0]
    assert swapped["beam_size"] == [2]
    done = model.encoder.reorder_encoder_out(swapped, torch.tensor([3, 2]))
    strange = model.encoder.reorder_encoder_out(beams, torch.tensor([2, 1, 1, 3]))
    for actual, sentences in ((swapped, [0, 1]), (done, [1]), (strange, [1, 0, 0, 1])):
        assert_close(actual["encoder_out"][0], first["encoder_out"][0][:, sentences])
        assert_close(actual["bert_out"][0], first["bert_out"][0][sentences])
        assert torch.equal(actual["encoder_padding_mask"][0], first["encoder_padding_mask"][0][sentences])


@pytest.mark.parametrize("folded", [True, False])
@torch.no_grad()  # as the search has it
def test_beams_keep_their_own_states_when_they_change_places_and_sentences_end(model, dictionary, monkeypatch, folded):
    """What beam search does: two sentences with two beams each; beams swap, then a sentence is done."""
    if not folded:
        monkeypatch.setattr(cross_attention, "SMALL_SIZE", 0)
    src_tokens, prev_output_tokens = batch(
        dictionary,
        [line for line in LINES[:2] for _ in range(2)],
        ["a big dog", "the dog eats", "man sees a", "runs a house"],
        left_pad=True,
    )
    incremental_state = {}
    encoder_out = model.encoder(src_tokens)
    model.decoder(prev_output_tokens[:, :1], encoder_out=encoder_out, incremental_state=incremental_state)
    model.decoder(prev_output_tokens[:, :2], encoder_out=encoder_out, incremental_state=incremental_state)
    memory = model.decoder.get_incremental_state(incremental_state, "memories")["layers"][0][0]
    assert isinstance(memory, FoldedMemory) is folded
    for new_order in (torch.tensor([1, 0, 2, 2]), torch.tensor([3, 2])):
        src_tokens, prev_output_tokens = src_tokens[new_order], prev_output_tokens[new_order]
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, new_order)
        model.decoder.reorder_incremental_state_scripting(incremental_state, new_order)
    step, _ = model.decoder(prev_output_tokens[:, :3], encoder_out=encoder_out, incremental_state=incremental_state)
    full, _ = model(src_tokens, None, prev_output_tokens[:, :3])
    assert_close(step[:, 0], full[:, 2], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_the_same_after_save_and_load(build, dictionary, tmp_path, kind):
    trained = build(**KINDS[kind])
    randomise(trained)
    src_tokens, prev_output_tokens = batch(dictionary, LINES, PREFIXES, left_pad=True)
    before, _ = trained.eval()(src_tokens, None, prev_output_tokens)
    torch.save(trained.state_dict(), tmp_path / "model.pt")
    reloaded = build(**KINDS[kind])
    reloaded.load_state_dict(torch.load(tmp_path / "model.pt"), strict=True)
    after, _ = reloaded.eval()(src_tokens, None, prev_output_tokens)
    assert_close(after, before)


@pytest.mark.parametrize("kind", KINDS)
def test_every_trainable_parameter_gets_a_gradient_whatever_drop_net_drew(build, dictionary, kind):
    model = build(**KINDS[kind]).train()  # the default of drop-net is 1
    src_tokens, prev_output_tokens = batch(dictionary, LINES[:2], PREFIXES[:2], left_pad=True)
    for _ in range(4):
        model.zero_grad()
        logits, _ = model(src_tokens, None, prev_output_tokens)
        logits.sum().backward()
        assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    assert all(parameter.grad is None for parameter in model.encoder.bert.model.parameters())


def test_a_mix_gets_a_gradient_where_no_layer_attends_to_bert(build, dictionary, monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda size: torch.zeros(size))  # drop-net: the NMT branch alone, everywhere
    model = build(bert_layer="mix", bert_drop_net=1.0).train()
    src_tokens, prev_output_tokens = batch(dictionary, LINES[:2], PREFIXES[:2], left_pad=True)
    model(src_tokens, None, prev_output_tokens)[0].sum().backward()
    assert model.encoder.layer_mix.w.grad.tolist() == [0, 0, 0]
