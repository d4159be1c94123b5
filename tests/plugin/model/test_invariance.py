"""Whole models: what must not change a sentence's translation, and that all of them gets gradients."""

from collections import Counter
from functools import partial

import pytest
import torch
from helpers import assert_close
from model_cases import LINES, MODELS, STOCK

from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.modules import folded_attention
from bert_fused_plugin.modules.folded_attention import FoldedMemory

OTHERS = ("context", "layer drop, checkpointed", STOCK)  # of which some depends on the batch, and some is tested below


@pytest.fixture(params=[name for name in MODELS if name not in OTHERS])
def model(request, cases):
    return cases.model(request.param).double().eval()


def test_with_the_full_context_no_position_sees_padding(build, cases):
    model = build().eval()
    source, target = cases.tokens()
    together, _ = model.decoder(target, encoder_out=model.encoder(source), full_context_alignment=True)
    for i in range(len(LINES)):
        source, target = cases.tokens(slice(i, i + 1))
        alone, _ = model.decoder(target, encoder_out=model.encoder(source), full_context_alignment=True)
        assert_close(together[i, : alone.size(1)], alone[0], atol=1e-4)


@pytest.mark.parametrize("left", [True, False])
def test_a_sentence_alone_and_in_a_batch_has_the_same_logits_and_attention(model, cases, dictionary, left):
    source, target = cases.tokens(left=left)
    together, extra = model(source, None, target)
    for i in range(len(LINES)):
        alone_source, alone_target = cases.tokens(slice(i, i + 1))
        alone, alone_extra = model(alone_source, None, alone_target)
        assert_close(together[i, : alone.size(1)], alone[0], atol=1e-5)
        if extra["attn"] is not None:  # at the places of the source, wherever the padding is
            kept = source[i].ne(dictionary.pad())
            assert_close(extra["attn"][0][i, : alone.size(1)][:, kept], alone_extra["attn"][0][0], atol=1e-5)
            assert not extra["attn"][0][i][:, ~kept].any()


@pytest.mark.parametrize("folded", [True, False])
@torch.no_grad()  # as the search has it
def test_the_steps_of_a_beam_search_equal_the_full_forward_pass(model, cases, dictionary, monkeypatch, folded):
    """Twice nothing happens; beams change places; the middle sentence is done; two orders that no beam search has."""
    monkeypatch.setattr(folded_attention, "SMALL_SIZE", folded_attention.SMALL_SIZE * folded)
    source, beams = cases.tokens(slice(0, 3))[0], torch.arange(3).repeat_interleave(2)
    first, state = model.encoder(source), {}
    source, encoder_out = source[beams], model.encoder.reorder_encoder_out(first, beams)
    target = torch.randint(dictionary.nspecial, len(dictionary), (6, 6))
    for t, order in enumerate((range(6), range(6), [1, 0, 2, 2, 5, 4], [1, 0, 4, 4], [3, 0, 1], [2, 0, 0, 1, 2])):
        order = torch.tensor(order)
        source, target = source[order], target[order]
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        model.decoder.reorder_incremental_state_scripting(state, order)
        assert (encoder_out["encoder_out"][0] is first["encoder_out"][0]) == (t < 3)  # kept once for a sentence
        for key, tensors in model.encoder(source[:: encoder_out["beam_size"][0]]).items():
            if key not in ("beam_size", "memories"):
                assert_close(encoder_out[key], tensors, atol=1e-5)
        step, _ = model.decoder(target[:, : t + 1], encoder_out=encoder_out, incremental_state=state)
        full, _ = model(source, None, target)
        assert_close(step[:, 0], full[:, t], atol=1e-5)
    if isinstance(model, BertFusedModel):
        assert isinstance(encoder_out["memories"][0][0][0], FoldedMemory) is folded


@pytest.mark.parametrize("empty", [False, True])
def test_every_trainable_parameter_gets_a_gradient_whatever_drop_net_drew(model, cases, dictionary, empty):
    """As DDP needs it, also where all targets are empty."""
    source, target = cases.tokens()
    if empty:
        target = torch.full((len(source), 1), dictionary.eos())
    for _ in range(4):  # the default of drop-net is 1
        model.zero_grad()
        model.train()(source, None, target)[0].sum().backward()
        assert [name for name, p in model.named_parameters() if (p.grad is not None) != p.requires_grad] == []
    if model.encoder.source is not None:  # whose frozen parameters are none of the model
        assert all(p.requires_grad or p.grad is None for p in model.encoder.source.bert.model.parameters())


@pytest.mark.parametrize("checkpointed", [False, True])
def test_with_layer_drop_every_parameter_gets_a_gradient_once_as_ddp_needs_it(build, cases, checkpointed):
    model = build(encoder_layerdrop=0.5, decoder_layerdrop=0.5, checkpoint_activations=checkpointed).train()
    source, target = cases.tokens()
    times = Counter()
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for name, parameter in parameters.items():
        parameter.register_hook(lambda _, name=name: times.update([name]))
    for _ in range(6):
        times.clear()
        model(source, None, target)[0].sum().backward()
        assert times == dict.fromkeys(parameters, 1)


@pytest.mark.parametrize("flag", ["checkpoint_activations", "offload_activations"])
def test_checkpointed_layers_compute_the_same(build, cases, flag):
    """Also under autocast; and where a batch is read twice, each parameter gets its gradient once, as DDP needs it."""
    source, target = cases.tokens()

    def gradients(**flags):
        torch.manual_seed(1)
        model, times = build(dropout=0.1, **flags).train(), Counter()
        assert isinstance(model.decoder.layers[0].forward, partial) is bool(flags)
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        for name, parameter in parameters.items():
            parameter.register_hook(lambda _, name=name: times.update([name]))
        torch.manual_seed(2)
        with torch.autocast("cpu", torch.bfloat16):
            readings = [model(source, None, target)[0].float().sum() for _ in range(2)]
        sum(readings).backward()
        assert times == dict.fromkeys(parameters, 1)
        return {name: p.grad for name, p in parameters.items()}

    plain, checkpointed = gradients(), gradients(**{flag: True})
    for name in plain:
        assert torch.equal(plain[name], checkpointed[name]), name


def test_keys_and_values_are_offloaded_too(build, cases, monkeypatch):
    """They are what a layer reads beside its own states."""
    packed = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda tensor: packed.append(tensor.shape) or tensor, lambda x: x)
    monkeypatch.setattr("bert_fused_plugin.models.bert_fused.layer_building.save_on_cpu", lambda: hooks)
    model, (source, target) = build(offload_activations=True).train(), cases.tokens()
    model(source, None, target)
    layers = [*model.encoder.layers, *model.decoder.layers]
    assert len(packed) >= 3 * len(layers)  # the states, and at least the keys and values of BERT


def test_a_mix_gets_a_gradient_where_no_layer_attends_to_bert(build, cases, monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda size: torch.zeros(size))  # drop-net: the NMT branch alone, everywhere
    model = build(bert_layer="mix", bert_drop_net=1.0).train()
    source, target = cases.tokens(slice(0, 2))
    model(source, None, target)[0].sum().backward()
    assert model.encoder.source.layer_mix.w.grad.tolist() == [0, 0, 0]
