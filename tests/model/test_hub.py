"""The hub interface loads quietly unless asked, and warns of lines that do not fit the dictionary."""

import logging

import pytest
import torch
from documentation import ROOT

from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel

PINNED = ROOT / "tests" / "pinned"
MODELS = [(BertFusedModel, "fused"), (GruModel, "gru")]


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_loading_is_quiet_unless_asked(model, name, caplog):
    before = [logging.getLogger(logger).level for logger in ("fairseq", "bert_fused_plugin")]
    hub = model.from_pretrained(str(PINNED / name))
    assert caplog.messages == []
    assert [logging.getLogger(logger).level for logger in ("fairseq", "bert_fused_plugin")] == before
    assert isinstance(hub.models[0], model)
    model.from_pretrained(str(PINNED / name), "model.pt", ".", verbose=True)
    assert "[en] dictionary: 24 types" in caplog.messages
    assert any("'save_dir'" in message for message in caplog.messages)  # the settings of the training


def test_a_warning_is_shown_though_loading_is_quiet(caplog):
    BertFusedModel.from_pretrained(str(PINNED / "fused"), bert_unchecked=True, bert_mask_special_tokens=True)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith("--bert-unchecked: ")


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_a_line_that_does_not_fit_the_dictionary_is_warned_of(model, name, caplog):
    hub = model.from_pretrained(str(PINNED / name))
    assert len(hub.translate(["the old dog", "", "The old dog"], beam=1, max_len_b=3)) == 3
    hub.translate("xyz", beam=1, max_len_b=3)
    [message] = caplog.messages
    assert message.startswith("1 of the 3 symbols of a line (33%) are unknown to the source dictionary: 'The' (1 of")


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_bf16_is_chosen_where_the_model_is_loaded(model, name):
    single, half = (model.from_pretrained(str(PINNED / name), **options) for options in ({}, {"bf16": True}))
    assert {p.dtype for p in single.parameters()} == {torch.float32}
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    [[expected]], [[found]] = (hub.generate([hub.encode("the old dog")], beam=1, max_len_b=1) for hub in (single, half))
    assert found["score"].item() == pytest.approx(expected["score"].item(), rel=0.05, abs=0.05)


def test_a_model_that_was_trained_with_flags_for_data_sets_translates():
    nowhere = {"bert_text": "/nonexistent", "bert_cache": "/nonexistent"}
    hub = BertFusedModel.from_pretrained(str(PINNED / "fused"), eval_bleu=False, **nowhere)
    assert isinstance(hub.translate("the dog", max_len_b=5), str)
