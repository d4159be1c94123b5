"""Members of an ensemble: which read BERT, whether they read the same, and those that do not."""

from itertools import combinations
from weakref import WeakValueDictionary

import pytest
import torch
from helpers import assert_close, encode, make_gru, pad

from bert_fused_plugin.tasks import ensembles


@pytest.fixture
def plain(stock):
    return stock()


def test_a_member_that_does_not_read_bert_is_copied_and_stays_as_it_is(build, plain, dictionary):
    src_tokens = pad([encode(dictionary, line) for line in ("the old man sees", "a dog")], dictionary.pad(), left=True)
    net_input = {
        "src_tokens": src_tokens,
        "src_lengths": src_tokens.ne(dictionary.pad()).sum(dim=1),
        "prev_output_tokens": src_tokens[:, -3:],
        "bert_tokens": torch.tensor([[2, 6, 3], [2, 7, 3]]),
        "bert_out": torch.randn(2, 3, 12),
    }
    fused, before = build(), dict(vars(plain))
    kept, member = ensembles.members([fused, plain])
    assert kept is fused
    own = ensembles.without_bert_input(net_input)
    with pytest.raises(TypeError, match="bert_tokens"):
        plain(**net_input)
    with torch.no_grad():
        assert_close(member(**net_input)[0], plain(**own)[0])
        expected = plain.encoder.forward_torchscript(own)["encoder_out"][0]
        assert_close(member.encoder.forward_torchscript(net_input)["encoder_out"][0], expected)
    assert member.decoder is plain.decoder
    assert all(one is other for one, other in zip(member.parameters(), plain.parameters()))
    assert vars(plain) == before
    assert "forward" not in vars(plain.encoder)


def test_an_ensemble_without_bert_is_left_alone(plain, dictionary):
    models = [plain, make_gru(dictionary).eval()]
    assert ensembles.members(models) is models


def test_an_alignment_needs_attention_to_source_tokens(build, plain, dictionary):
    able = [build(), plain, make_gru(dictionary)]
    assert ensembles.ensemble_errors(able, print_alignment=True) == []
    for model in (build(bert_fusion="embedding"), make_gru(dictionary, attention="none")):
        [error] = ensembles.ensemble_errors([*able, model], print_alignment=True)
        assert error.startswith("--print-alignment needs attention to source tokens, and a model with --bert-fusion e")
        assert ensembles.ensemble_errors([model], print_alignment=False) == []


def test_models_with_one_bert_hold_it_once(build, dictionary, bert_dir):
    berts = WeakValueDictionary()
    models = [build(), build(bert_mask_special_tokens=True), make_gru(dictionary, bert_model=bert_dir)]
    readers = [build(bert_detok="moses"), build()]
    readers[1].encoder.source.record.update(tokenizer="another")
    configured, other, *trained = build(), build(bert_layer="1"), build(bert_finetune=True), build(bert_finetune=True)
    configured.encoder.source.record.update(configuration="hidden_act relu")
    for model in (*models, *readers, configured, other, *trained):
        ensembles.share_bert(berts, model.encoder.source)
    for one, another in combinations(models, 2):
        assert one.encoder.source.bert.is_same(another.encoder.source.bert)
    for one, another in combinations((models[0], configured, other, *trained), 2):
        assert not one.encoder.source.bert.is_same(another.encoder.source.bert)
    assert ensembles.agree_on_bert_input([*models, other, *trained])
    net_input = {"src_tokens": torch.tensor([[5, 2]]), "bert_tokens": torch.tensor([[2, 5, 3]]), "bert_out": None}
    for apart in ([models[0], other], trained):  # the tokens are of all, and the states of none
        assert ensembles.with_bert_states(apart, net_input).keys() == {"src_tokens", "bert_tokens"}
    models[1].encoder.source.bridge.max_tokens -= 1
    assert not ensembles.agree_on_bert_input(models)
    assert not any(ensembles.agree_on_bert_input([models[0], reader]) for reader in readers)
