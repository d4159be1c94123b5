"""A checkpoint knows its BERT: another one is an error that names the one expected."""

import copy
import json
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import make_gru
from language_models import save_language_model
from torch import nn

from bert_fused_lab.finished import without_folders
from bert_fused_plugin.bert.source import source_of, weights_fingerprint
from bert_fused_plugin.checkpoints.record import BERT_RECORD, JsonRecord, read_json, recorded_origins
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.flags import Record, recorded
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig

KEY = "encoder.bert_record.text"


def nudge(weights):
    weights["encoder.layer.0.output.dense.weight"][0, 0] += 1e-3
    return weights


def swap_layers(weights):
    numbers = str.maketrans("01", "10")
    return {name.translate(numbers) if "layer." in name else name: value for name, value in weights.items()}


@pytest.fixture
def other_dir(copied):
    return copied(nudge)


def test_the_fingerprint_stays():
    encoder = nn.ModuleDict({"layer": nn.ModuleList([nn.Linear(2, 3), nn.LayerNorm(3)])})
    for i, parameter in enumerate(encoder.parameters()):
        parameter.data = torch.arange(float(parameter.numel())).view_as(parameter) + i
    linear = encoder["layer"][0]
    linear.weight.data = linear.weight.data.t().contiguous().t()  # the order in memory does not count
    bert = SimpleNamespace(model=encoder, weights=encoder.state_dict)
    assert weights_fingerprint(bert) == "579169cf8fb83180b9ff33541138503c"


@pytest.mark.parametrize(
    ("change", "config", "part"),
    [
        (nudge, {}, "other weights"),
        (swap_layers, {}, "other weights"),
        (dict, {"hidden_act": "relu"}, "another configuration"),
        (dict, {}, "another tokenizer"),
    ],
)
def test_another_bert_is_refused_by_name(build, bert_dir, copied, change, config, part):
    state, other = build().state_dict(), copied(change, **config)
    if part == "another tokenizer":
        file = Path(other) / "tokenizer.json"
        file.write_text(file.read_text().replace('"lowercase": true', '"lowercase": false'))
    build().load_state_dict(state)
    said = rf"trained with BERT {bert_dir!r}.*{other} has {part} \(.+, not .+\);"
    with pytest.raises(BertFusedError, match=said) as error:
        build(bert_model=other).load_state_dict(state)
    assert "'bert_unchecked': True" in str(error.value)
    build(bert_model=other, bert_unchecked=True).load_state_dict(state)


@pytest.mark.parametrize(
    "change", [{"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, {"is_causal": False}]
)
@pytest.mark.parametrize("layer", ["-1", "1", "mix"])
def test_settings_that_change_states_are_seen_whatever_their_names(dictionary, tmp_path, change, layer):
    save_language_model("Llama", tmp_path)
    state = make_gru(dictionary, bert_model=str(tmp_path), bert_layer=layer).state_dict()
    make_gru(dictionary, bert_model=str(tmp_path), bert_layer=layer).load_state_dict(state)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "rope_theta": 500.0, **change}))
    with pytest.raises(BertFusedError, match=rf"--bert-model {tmp_path} has other states for the same input \(its set"):
        make_gru(dictionary, bert_model=str(tmp_path), bert_layer=layer).load_state_dict(state)


def test_states_of_other_machines_are_the_same_and_old_records_have_none(build, monkeypatch):
    model = build()
    record = model.encoder.source.record
    exact = record.content["states"]
    for error, is_same in ((0.002, True), (0.03, False)):
        record.update(states=[[number * (1 + error * (-1) ** i) for i, number in enumerate(row)] for row in exact])
        with nullcontext() if is_same else pytest.raises(BertFusedError, match="has other states for the same input"):
            build().load_state_dict(model.state_dict())
    record.update(states=[[float("nan")] * len(row) for row in exact])
    with pytest.raises(BertFusedError, match="has other states for the same input"):
        build().load_state_dict(model.state_dict())
    del record.content["states"]
    record.update()
    build().load_state_dict(model.state_dict())


def test_a_bert_that_trains_has_no_recorded_states_and_a_frozen_one_a_few_dozen_numbers(build):
    assert build(bert_finetune=True).encoder.source.record.content["states"] is None
    [last] = build().encoder.source.record.content["states"]
    assert 20 <= len(last) <= 50
    assert len(build(bert_layer="mix").encoder.source.record.content["states"]) == 3


def test_settings_that_another_version_of_transformers_does_not_name_are_not_compared(build):
    model = build()
    record = model.encoder.source.record.content
    older = {**record, "configuration": f"n_heads 2, {record['configuration']}, num_layers 9"}
    build().load_state_dict({**model.state_dict(), BERT_RECORD: JsonRecord(older).text})


def test_a_finetuned_bert_is_in_the_checkpoint_itself(build, other_dir):
    state = build(bert_finetune=True).state_dict()
    assert read_json(state, BERT_RECORD)["weights_in_layers"] is None
    build(bert_finetune=True, bert_model=other_dir).load_state_dict(state)


def test_after_a_load_the_record_is_of_the_bert_at_hand(build, other_dir):
    model = build(bert_model=other_dir, bert_unchecked=True)
    model.load_state_dict(build().state_dict())
    assert read_json(model.state_dict(), BERT_RECORD)["name"] == other_dir


def test_a_damaged_record_is_an_error(build):
    state = build().state_dict()
    state[KEY] = state[KEY] * 0 + 255
    with pytest.raises(BertFusedError, match=r"record encoder\.bert_record\.text is damaged"):
        build().load_state_dict(state)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_averages_keep_the_record(build, dtype):
    record = build().encoder.source.record
    assert record.text.dtype == torch.float32  # what fairseq averages and halves
    text = record.text.to(dtype)
    kept = {KEY: (text + text + text).float() / 3 * 0.9999 + text.float() * 0.0001}
    assert read_json(kept, BERT_RECORD) == record.content


def test_what_changes_berts_input_is_compared_too(build):
    state = build(bert_layer="1").state_dict()
    for settings, said in (
        ({"bert_layer": "2"}, "--bert-layer 1, not 2"),
        ({"bert_layer": "1", "bert_mask_special_tokens": True}, "--bert-mask-special-tokens False, not True"),
        ({"bert_layer": "1", "bert_strip_tags": "dog"}, "--bert-strip-tags left out, not dog"),
        ({"bert_detok": "moses"}, "--bert-detok none, not moses, --bert-layer 1, not 2"),
    ):
        with pytest.raises(BertFusedError, match=f"the checkpoint was trained with {said}; .*bert_unchecked"):
            build(**settings).load_state_dict(state)
    build(bert_layer="-2").load_state_dict(state)  # the same layer
    with pytest.raises(BertFusedError, match="--bert-layer mix, not 2; set the same"):  # which can be given
        build(bert_layer="2").load_state_dict(build(bert_layer="mix").state_dict())
    build(bert_unchecked=True).load_state_dict(state)


def test_options_of_a_tokenizer_are_recorded_in_one_form():
    def text(given):
        return recorded(BertFusedConfig(bert_tokenizer_options=given), Record.BERT)["bert_tokenizer_options"]

    assert text("strip_accents=False, do_lower_case= true") == "do_lower_case=true,strip_accents=false"
    assert text("src_lang=vie_Latn") == "src_lang=vie_Latn"
    assert text(None) is None


def test_a_task_flag_that_is_not_given_any_more_is_said(build, caplog):
    model = build()
    model.encoder.source.record.update(given=["--bert-text"])
    state = model.state_dict()
    build().load_state_dict(state)
    assert caplog.text.count("trained with --bert-text, which is not given now") == 1
    caplog.clear()
    model.load_state_dict(state)
    assert "--bert-text" not in caplog.text


def test_a_finetuned_bert_of_another_kind_is_named(dictionary, bert_dir, tmp_path):
    save_language_model("DistilBERT", tmp_path)
    tuned, frozen = (make_gru(dictionary, bert_model=bert_dir, bert_finetune=flag) for flag in (True, False))
    with pytest.raises(BertFusedError, match=r"and this model is built without it; add --bert-finetune$"):
        frozen.load_state_dict(tuned.state_dict())
    with pytest.raises(BertFusedError, match=r"trained without --bert-finetune, and this model is built with it"):
        tuned.load_state_dict(frozen.state_dict())
    other = make_gru(dictionary, bert_model=str(tmp_path), bert_finetune=True)
    with pytest.raises(BertFusedError, match=r"num_hidden_layers 2, .* and another tokenizer"):
        other.load_state_dict(tuned.state_dict())


# --- where the parameters come from


BEGAN = [("/some/where/plain.pt", 1240), ("/older.pt", None)]


@pytest.fixture
def begun(build):
    """The parameters of a model that began from others."""
    model = build()
    model.encoder.source.record.update(began_from=BEGAN)
    return model.state_dict()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_it_comes_with_the_parameters(build, begun, dtype):
    """fairseq takes the flags of a training that resumes from the command line, and the parameters from the file."""
    model = build().to(dtype)
    model.load_state_dict({key: value.to(dtype) for key, value in begun.items()})
    assert recorded_origins(model.state_dict()) == BEGAN
    model.load_state_dict(build().state_dict())
    assert recorded_origins(model.state_dict()) == []


def test_folders_are_left_out_of_what_moves(build, begun):
    moved = without_folders(begun)
    assert recorded_origins(moved) == [(os.path.basename(path), updates) for path, updates in BEGAN]
    record = read_json(moved, BERT_RECORD)
    assert {**record, "began_from": None} == {**read_json(begun, BERT_RECORD), "began_from": None}
    state = build().state_dict()
    assert without_folders(state) is state


# --- the source of BERT and the encoder that registers its modules


@pytest.fixture(params=["fused", "gru"])
def make(request, build, dictionary, bert_dir):
    """Build a model of one of the two kinds that read BERT."""
    if request.param == "fused":
        return build
    return lambda **options: make_gru(dictionary, bert_model=bert_dir, **options)


@pytest.mark.parametrize("finetune", [False, True])
def test_encoder_and_source_hold_the_same_modules_also_in_a_copy_that_has_moved(make, finetune):
    model = make(bert_layer="mix", bert_finetune=finetune)
    twin = copy.deepcopy(model).double()
    assert source_of(twin) is not source_of(model)
    for each, dtype in ((model, torch.float), (twin, torch.double)):
        encoder, source = each.encoder, source_of(each)
        assert encoder.bert is source.bert
        assert encoder.bert_record is source.record
        assert encoder.layer_mix is source.layer_mix
        assert source.bert.model.dtype == source.layer_mix.w.dtype == dtype


def test_models_without_bert_have_no_source(dictionary, stock):
    assert source_of(make_gru(dictionary)) is None
    assert source_of(stock()) is None
