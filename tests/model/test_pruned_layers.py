"""LayerDrop's pruning keeps some layers of a trained model, and these keep their gates."""

import copy

import pytest
import torch
from helpers import SIZES, parse_flags, randomise, task_of

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.bert_fused.layer_building import pruned


@pytest.fixture
def parse(bert_dir):
    def flags_of(flags):
        sizes = {**SIZES, "encoder_layers": 3, "decoder_layers": 3}
        return parse_flags(f"--bert-model {bert_dir} {flags}", sizes)

    return flags_of


@pytest.fixture
def make(dictionary):
    """Return a model of flags, and the flags as fairseq keeps them."""

    def build_of(args):
        model = BertFusedModel.build_model(copy.deepcopy(args), task_of(dictionary))
        randomise(model)
        return model

    return build_of


def assert_same_layers(old, new, numbers):
    assert len(new) == len(numbers)
    for number, layer in zip(numbers, new):
        expected = old[number].state_dict()
        assert layer.state_dict().keys() == expected.keys()
        assert all(torch.equal(value, expected[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [("0,2", "0,1,2"), ("2", "1,2"), ("0,1,2", "1"), ("0", "0"), ("2,1", "0,2"), ("0,2", None), (None, "2")],
)
def test_the_gates_are_those_of_the_layers_that_are_kept(parse, make, encoder, decoder):
    gates = "--bert-gates 1,0,0" if (encoder, decoder) == ("0", "0") else "--bert-gates 0,1,1"
    trained = make(parse(gates))
    sides = [("encoder", encoder), ("decoder", decoder)]
    args = parse(" ".join([gates, *(f"--{side}-layers-to-keep {kept}" for side, kept in sides if kept)]))
    smaller = make(args)
    smaller.load_state_dict(trained.state_dict(), strict=True, model_cfg=args)
    for side, kept in sides:
        numbers = sorted(map(int, (kept or "0,1,2").split(",")))
        assert_same_layers(getattr(trained, side).layers, getattr(smaller, side).layers, numbers)


@pytest.mark.parametrize("strict", [True, False])
def test_a_model_that_was_trained_with_some_layers_is_not_pruned_again(parse, make, strict):
    args = parse("--encoder-layers-to-keep 0,2 --decoder-layers-to-keep 1")
    trained, again = make(args), make(args)
    again.load_state_dict(trained.state_dict(), strict=strict, model_cfg=args)
    assert_same_layers(trained.encoder.layers, again.encoder.layers, [0, 1])
    assert_same_layers(trained.decoder.layers, again.decoder.layers, [0])


def test_a_text_of_model_overrides_prunes_too(parse, make):
    trained, args = make(parse("")), parse("")
    args.encoder_layers_to_keep = "2,0"
    smaller = make(args)
    smaller.load_state_dict(trained.state_dict(), strict=True, model_cfg=args)
    assert_same_layers(trained.encoder.layers, smaller.encoder.layers, [0, 2])


def test_the_layers_of_a_fine_tuned_bert_are_not_pruned(parse, make):
    model = make(parse("--encoder-layers-to-keep 0"))
    names = ["encoder.bert.model.layers.2.attn.weight", "encoder.layers.0.fc1.weight", "decoder.layers.2.fc1.weight"]
    state = dict.fromkeys([*names, "encoder.layers.2.fc1.weight"], torch.zeros(1))
    assert list(pruned(model.cfg, state)) == names


def test_a_checkpoint_without_the_layers_is_refused_with_what_it_lacks(parse, make, build):
    args = parse("--encoder-layers-to-keep 2")
    with pytest.raises(BertFusedError, match=r"\d+ are missing, such as encoder\.layers\.0\.[a-z_.]+; \d+ are unknown"):
        make(args).load_state_dict(build(decoder_layers=4).state_dict(), strict=True, model_cfg=args)
