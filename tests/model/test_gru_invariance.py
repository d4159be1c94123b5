"""A recurrent model gives a sentence the same values alone, in a batch and step by step; all of it gets gradients."""

from argparse import Namespace

import pytest
import torch
from helpers import GRU_SIZES, assert_close, make_gru, randomise, task_of
from recurrent_models import KINDS, LINES, WITH_BERT, make_batch, make_random_gru

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.gru_bahdanau import GruModel


@pytest.fixture(params=[*KINDS, *WITH_BERT])
def model(request, dictionary, bert_dir):
    return make_random_gru(request.param, dictionary, bert_dir)[0]


@pytest.mark.parametrize("left", [True, False])
def test_a_sentence_alone_and_in_a_batch_has_the_same_logits_and_attention(model, dictionary, left):
    source, target = make_batch(dictionary, left=left)
    together, extra = model(source, None, target)
    for i in range(len(LINES)):
        alone_source, alone_target = make_batch(dictionary, slice(i, i + 1))
        alone, alone_extra = model(alone_source, None, alone_target)
        assert_close(together[i, : alone.size(1)], alone[0], atol=1e-10)
        if extra["attn"] is not None:  # at the places of the source, wherever the padding is
            kept = source[i].ne(dictionary.pad())
            assert_close(extra["attn"][0][i, : alone.size(1)][:, kept], alone_extra["attn"][0][0], atol=1e-10)
            assert not extra["attn"][0][i][:, ~kept].any()


def test_step_by_step_decoding_equals_the_full_forward_pass_through_a_beam_search(model, dictionary):
    source, target = make_batch(dictionary, slice(0, 3))
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


def test_reordered_encoder_output_equals_that_of_reordered_sentences(model, dictionary):
    source, _ = make_batch(dictionary)
    order = torch.tensor([2, 0, 0, 3, 1])
    reordered = model.encoder.reorder_encoder_out(model.encoder(source), order)
    permuted = model.encoder(source[order])
    for key in ("encoder_out", "encoder_padding_mask", "final_states"):
        assert_close(reordered[key][0], permuted[key][0])


def test_every_parameter_gets_a_gradient(model, dictionary):
    source, target = make_batch(dictionary)
    model.train()(source, None, target)[0].sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("attention", ["additive", "none"])
@pytest.mark.parametrize(("u", "used"), [(0.1, ["attn"]), (0.5, ["attn", "bert_attn"]), (0.9, ["bert_attn"])])
def test_drop_net_computes_only_the_contexts_it_takes_and_every_parameter_gets_a_gradient(
    dictionary, bert_dir, monkeypatch, u, used, attention
):
    options = {"bert_model": bert_dir, "bert_drop_net": 0.6, "bert_layer": "mix", "attention": attention}
    model = make_gru(dictionary, **options).train()
    randomise(model)
    projected = []
    model.decoder.cell.context_proj.register_forward_hook(lambda *_: projected.append(True))
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), u))
    source, target = make_batch(dictionary)
    logits, extra = model(source, None, target)
    assert len(projected) == len(used)
    seen = [name for name in used if name == "bert_attn" or attention != "none"]
    assert [name for name in ("attn", "bert_attn") if extra[name] is not None] == seen
    logits.sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    model.decoder.branch_weights = {0.1: (1.0, 0.0), 0.5: (0.5, 0.5), 0.9: (0.0, 1.0)}[u]
    assert_close(model.eval()(source, None, target)[0], logits, atol=1e-5)


def test_a_row_of_padding_alone_is_finite(dictionary):
    model = make_gru(dictionary)
    source, target = make_batch(dictionary)
    source = torch.cat([source, torch.full_like(source[:1], dictionary.pad())])
    target = torch.cat([target, target[:1]])
    logits, _ = model(source, None, target)
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_targets_that_are_padded_on_the_left_are_refused(dictionary):
    task = task_of(dictionary)
    vars(task.cfg).update(left_pad_target=True)
    with pytest.raises(BertFusedError, match=r"^--left-pad-target must be False, got True: .*; leave it out$"):
        GruModel.build_model(Namespace(**GRU_SIZES), task)
