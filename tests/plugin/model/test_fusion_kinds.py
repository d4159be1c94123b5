"""Embedding fusion, models without encoder layers, and the flags of the fusion, in whole models."""

import argparse

import pytest
import torch
from fairseq.sequence_scorer import SequenceScorer
from helpers import LINES, SIZES, assert_close, make_gru, randomise
from torch import nn

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel, bert_decoder
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, register_fusion
from bert_fused_plugin.modules.fusion import FUSION_KINDS, FusionKind


def test_embedding_fusion_feeds_projected_states_with_positions_to_plain_layers(build, dictionary, source):
    model = build(bert_fusion="embedding", encoder_learned_pos=True)
    randomise(model)
    encoder = model.eval().encoder
    encoder_out = encoder(source, return_all_hiddens=True)
    states = encoder.source.states(encoder.source.tokens(source))
    bert_padding_mask = encoder_out["bert_padding_mask"][0]
    assert torch.equal(encoder_out["encoder_padding_mask"][0], bert_padding_mask)
    positions = encoder.embed_positions.weight
    for b, row in enumerate(states):
        for j, state in enumerate(row):
            if not bert_padding_mask[b, j]:
                # fairseq counts positions from the padding index + 1
                expected = (
                    encoder.bert_proj.weight @ state + encoder.bert_proj.bias + positions[dictionary.pad() + 1 + j]
                )
                assert_close(encoder_out["encoder_states"][0][j, b], expected, atol=1e-5)
    names = set(model.state_dict())
    assert not any("bert_attn" in name for name in names)
    assert "encoder.embed_tokens.weight" not in names
    assert encoder_out["encoder_out"][0].shape == (states.size(1), len(LINES), SIZES["encoder_embed_dim"])


def test_a_reference_is_scored_by_models_with_and_without_attention_to_source_tokens(build, dictionary, batch):
    models = [build().eval(), build(bert_fusion="embedding").eval(), make_gru(dictionary, attention="none").eval()]
    net_input = dict(zip(("src_tokens", "src_lengths", "prev_output_tokens"), batch))
    scored = SequenceScorer(dictionary).generate(models, {"net_input": net_input, "target": batch[2]})
    probabilities = sum(model(**net_input)[0].softmax(-1) for model in models) / len(models)
    for i, [row] in enumerate(scored):
        words = torch.arange(len(row["tokens"]))
        assert_close(row["positional_scores"], probabilities[i, words, row["tokens"]].log(), atol=1e-5)


def test_bert_decoder_attends_to_berts_states_alone(build, dictionary, source):
    args = argparse.Namespace()
    bert_decoder(args)
    assert (args.encoder_layers, args.decoder_layers, args.bert_fusion) == (0, 6, "embedding")
    model = build(**{**SIZES, "bert_fusion": "embedding", "encoder_layers": 0, "share_all_embeddings": True}).eval()
    assert {name for name, _ in model.encoder.named_parameters()} == set()
    encoder_out = model.encoder(source)
    states = model.encoder.source.bert(model.encoder.source.bridge.bert_tokens(source))
    assert_close(encoder_out["encoder_out"][0].transpose(0, 1), states)
    for layer in model.decoder.layers:
        assert layer.bert_attn is None
        assert layer.encoder_attn.k_proj.in_features == model.encoder.source.bert.dim


def test_without_encoder_layers_the_decoder_attends_to_embeddings_and_bert(build, source):
    model = build(encoder_layers=0).eval()
    encoder_out = model.encoder(source)
    embedded, _ = model.encoder.forward_embedding(source)
    assert_close(encoder_out["encoder_out"][0].transpose(0, 1), embedded)
    assert all(layer.bert_attn is not None for layer in model.decoder.layers)


def test_learned_positions_limit_the_word_pieces_that_stand_in_for_source_tokens(build, source):
    model = build(bert_fusion="embedding", encoder_learned_pos=True, max_source_positions=5).eval()
    assert model.encoder.source.bridge.max_tokens == 5
    assert torch.isfinite(model.encoder(source)["encoder_out"][0]).all()


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        ({}, 1.0),
        ({"bert_fusion": "gated"}, 0.0),
        ({"bert_fusion": "stacked"}, 0.0),
        ({"bert_identity_start": True}, 0.0),
        ({"bert_identity_start": True, "bert_drop_net": 0.4}, 0.4),
        ({"bert_drop_net": 0.0}, 0.0),
    ],
)
def test_the_default_of_drop_net_depends_on_the_fusion(options, rate):
    assert BertFusedConfig(**options).drop_net_rate() == rate


def test_more_word_pieces_than_bert_has_positions_are_refused(build):
    with pytest.raises(BertFusedError, match=r"--bert-max-tokens must be at most 32, the positions of BERT, got"):
        build(bert_max_tokens=33)


def test_a_layer_may_be_a_number(build):
    assert build(bert_layer=1).encoder.source.bert.layers == (1,)


class Product(nn.Module):
    """A toy: the product of both attentions."""

    def forward(self, nmt, bert):
        return nmt * bert


@pytest.fixture
def toys(monkeypatch):
    sublayer = FusionKind("BERT's sub-layer comes first", is_sublayer=True)
    field = BertFusedConfig.__dataclass_fields__["bert_fusion"]
    monkeypatch.setattr(field, "type", field.type)  # what is registered is forgotten after the test
    monkeypatch.setattr(field, "metadata", field.metadata)
    product = FusionKind("the product", lambda options: Product())
    for name, toy in (("toy-sublayer", sublayer), ("toy-product", product)):
        monkeypatch.setitem(FUSION_KINDS, name, toy)
        with pytest.raises(BertFusedError, match=f"--bert-fusion {name} is registered already; choose another name"):
            register_fusion(name, toy)
        del FUSION_KINDS[name]
        register_fusion(name, toy)


@pytest.mark.usefixtures("toys")
def test_the_checks_know_a_fusion_of_ones_own(build):
    build(bert_fusion="toy-sublayer", bert_stack_order="encoder-first")
    with pytest.raises(BertFusedError, match=r"--bert-stack-order is for --bert-fusion stacked, got encoder-first"):
        build(bert_fusion="toy-product", bert_stack_order="encoder-first")
    with pytest.raises(BertFusedError, match=r"--bert-identity-start is for .*, got True; leave it out"):
        build(bert_fusion="toy-product", bert_identity_start=True)
    build(bert_fusion="toy-product", bert_drop_net=0.5)
    with pytest.raises(BertFusedError, match=r"--bert-drop-net must be below 1 with --bert-fusion toy-product"):
        build(bert_fusion="toy-product", bert_drop_net=1.0)
    with pytest.raises(BertFusedError, match=r"--bert-drop-net is for --bert-fusion .*parallel.*, got 0.5"):
        build(bert_fusion="toy-sublayer", bert_drop_net=0.5)


@pytest.mark.usefixtures("toys")
def test_the_flag_offers_and_explains_a_fusion_of_ones_own():
    parser = argparse.ArgumentParser()
    BertFusedModel.add_args(parser)
    [action] = [action for action in parser._actions if action.dest == "bert_fusion"]
    assert list(action.choices)[-2:] == ["toy-sublayer", "toy-product"]
    assert action.help.endswith("; toy-sublayer: BERT's sub-layer comes first; toy-product: the product.")


@pytest.mark.usefixtures("toys")
def test_a_fusion_of_ones_own_joins_the_branches(build, source):
    model = build(bert_fusion="toy-product")
    randomise(model)
    layer = model.eval().encoder.layers[0]
    with torch.no_grad():
        layer.bert_attn.out_proj.weight.zero_()
        layer.bert_attn.out_proj.bias.zero_()
    first, second = model.encoder(source, return_all_hiddens=True)["encoder_states"][:2]
    normed = layer.self_attn_layer_norm(first)
    assert_close(second, layer.final_layer_norm(normed + layer.fc2(torch.relu(layer.fc1(normed)))), atol=1e-5)


def test_a_gated_checkpoint_of_version_1_0_loads(build):
    """Its gate had another name."""
    model = build(bert_fusion="gated")
    randomise(model)
    old = {name.replace(".mix.", ".fusion.mix."): value.clone() for name, value in model.state_dict().items()}
    assert sum(".fusion.mix." in name for name in old) == 12  # three parameters in each of four layers
    other = build(bert_fusion="gated")
    other.load_state_dict(old)
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in model.named_parameters())
