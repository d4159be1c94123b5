"""Every class of pre-trained model that users bring, each with a tokenizer of its kind."""

import pytest
import torch
from helpers import LINES, assert_close, encode, make_model
from language_models import LANGUAGES, MAKERS, save_language_model
from transformers import AutoModel

from bert_fused_lab.exporting.export_model import save_bert
from bert_fused_plugin.checkpoints.record import BERT_RECORD, read_json
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD
from bert_fused_plugin.errors import BertFusedError


@pytest.fixture(scope="module", params=MAKERS)
def language_model(request, tmp_path_factory):
    torch.manual_seed(5)
    directory = tmp_path_factory.mktemp("model")
    save_language_model(request.param, directory)
    return request.param, str(directory)


@pytest.fixture
def model(language_model, dictionary):
    return make_model(dictionary, bert_model=language_model[1]).eval()


def test_states_are_those_of_the_sentence_alone_in_every_layer(language_model, model, dictionary, source):
    """Position offsets of RoBERTa, the causal mask, missing token types: all as the class itself computes."""
    _, directory = language_model
    reference = AutoModel.from_pretrained(directory).eval()
    if reference.config.is_encoder_decoder:
        reference = reference.get_encoder()
    assert model.encoder.source.bert.depth == 3
    bert_tokens = model.encoder.source.bridge.bert_tokens(source)
    for layer in ("-1", "1", "0", "mix"):
        bert = make_model(dictionary, bert_model=directory, bert_layer=layer).encoder.source.bert
        for row, padded, actual in zip(bert_tokens, bert_tokens.eq(BERT_PAD), bert(bert_tokens)):
            with torch.no_grad():
                output = reference(row[~padded].unsqueeze(0), output_hidden_states=True)
            hidden = (*output.hidden_states[:-1], output.last_hidden_state)
            expected = torch.cat([hidden[index][0] for index in bert.layers], dim=-1)
            assert_close(actual[~padded], expected, atol=1e-5)


def test_it_trains_and_translates_in_any_batch(language_model, dictionary, batch):
    model = make_model(dictionary, bert_model=language_model[1], bert_finetune=True)
    model.train()(*batch)[0].square().mean().backward()
    assert [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None] == []
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    together = model.eval()(*batch)[0]
    for i, line in enumerate(LINES):
        row = encode(dictionary, line).unsqueeze(0)
        assert_close(together[i : i + 1, : row.size(1)], model(row, None, row)[0], atol=1e-5)


def test_a_copy_of_it_and_its_tokenizer_takes_the_checkpoint(language_model, dictionary, batch, tmp_path):
    """As in an exported model."""
    name, directory = language_model
    flags = {"bert_tokenizer_options": LANGUAGES[name]} if name in LANGUAGES else {}
    model = make_model(dictionary, bert_model=directory, **flags).eval()
    save_bert(model.encoder.source.bert, tmp_path / "copy")
    again = make_model(dictionary, bert_model=str(tmp_path / "copy"), **flags).eval()
    again.load_state_dict(model.state_dict())
    tokens, others = (each.encoder.source.bridge.bert_tokens(batch[0]) for each in (model, again))
    assert torch.equal(tokens, others)
    assert torch.equal(model(*batch)[0], again(*batch)[0])


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_language_that_a_tokenizer_is_told_is_recorded_and_must_be_known(name, dictionary, tmp_path):
    save_language_model(name, tmp_path)
    flags = {"bert_model": str(tmp_path), "bert_tokenizer_options": LANGUAGES[name]}
    state = make_model(dictionary, **flags).state_dict()
    assert read_json(state, BERT_RECORD)["settings"]["bert_tokenizer_options"] == LANGUAGES[name]
    make_model(dictionary, **flags).load_state_dict(state)
    with pytest.raises(BertFusedError, match=f"--bert-tokenizer-options {LANGUAGES[name]}, not left out; set the same"):
        make_model(dictionary, bert_model=str(tmp_path)).load_state_dict(state)
    with pytest.raises(BertFusedError, match=r"--bert-tokenizer-options.*xx"):
        make_model(dictionary, **{**flags, "bert_tokenizer_options": "src_lang=xx"})
