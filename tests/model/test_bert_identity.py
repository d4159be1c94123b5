"""One definition of "the same BERT": checkpoints and the cache notice what changes states, and nothing else."""

import json
import shutil
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from documentation import text_of
from helpers import word_pieces_of
from transformers import BertModel

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.identity import (
    config_differences,
    describe_identity,
    identity_fingerprint,
    recorded_config,
)
from bert_fused_plugin.bert.record import RECORD_KEY, read_record
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.json_record import JsonRecord
from bert_fused_plugin.tasks import bert_cache
from bert_fused_plugin.tasks.bert_cache import BertCache, read_description, warn_of_small_shared_memory

# settings of config.json that change states, with another value each; the weights fit both
CHANGES = {"hidden_act": "relu", "num_attention_heads": 2, "layer_norm_eps": 1e-3}
# settings that change no state, and what an update of transformers brings
NO_CHANGES = {
    **{"transformers_version": "9.9", "architectures": ["BertForMaskedLM"], "_name_or_path": "elsewhere"},
    **{"torch_dtype": "float16", "dtype": "bfloat16", "use_cache": False, "_attn_implementation": "eager"},
    **{"hidden_dropout_prob": 0.3, "classifier_dropout": 0.2, "initializer_range": 0.1, "id2label": {"0": "a"}},
    **{"gradient_checkpointing": True, "output_hidden_states": True, "bos_token_id": 7, "num_beams": 4},
    **{"position_embedding_type": "absolute", "tie_word_embeddings": False, "tokenizer_class": "BertTokenizerFast"},
}


@pytest.fixture
def changed(bert_dir, tmp_path):
    """Copy BERT and change its configuration: changed(hidden_act="relu")."""

    def change(**settings):
        copy = tmp_path / f"bert-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(bert_dir, copy)
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps({**config, **settings}))
        return str(copy)

    return change


@pytest.mark.parametrize("name", CHANGES)
def test_a_configuration_that_changes_states_is_refused_by_name(build, bert_dir, changed, name):
    before = getattr(BertModel.from_pretrained(bert_dir).config, name)
    state, other = build().state_dict(), changed(**{name: CHANGES[name]})
    difference = rf"{other} has another configuration \({name} {before!r}, not {CHANGES[name]!r}\)"
    with pytest.raises(BertFusedError, match=f"trained with BERT '{bert_dir}'.* {difference}") as error:
        build(bert_model=other).load_state_dict(state)
    assert "'bert_unchecked': True" in str(error.value)
    build(bert_model=other, bert_unchecked=True).load_state_dict(state)


@pytest.mark.parametrize("options", [{}, {"bert_finetune": True}])
def test_a_missing_key_counts_as_its_default(build, bert_dir, changed, options):
    """Records of a frozen and of a trained BERT, in which a later version finds a key that it did not know."""
    state = build(**options).state_dict()
    record = read_record(state)
    for missing, refused in (("hidden_act", False), ("num_attention_heads", True)):  # the default is 12 heads
        config = {name: value for name, value in record["config"].items() if name != missing}
        old = {**state, RECORD_KEY: JsonRecord({**record, "config": config}).text}
        if refused:
            with pytest.raises(BertFusedError, match=r"another configuration \(num_attention_heads 12, not 4\)"):
                build(**options).load_state_dict(old)
        else:
            build(**options).load_state_dict(old)
            with pytest.raises(BertFusedError, match=r"\(hidden_act 'gelu', not 'relu'\)"):
                build(bert_model=changed(hidden_act="relu"), **options).load_state_dict(old)


def test_what_changes_no_state_is_no_difference(build, changed):
    state = build().state_dict()
    build(bert_model=changed(**NO_CHANGES)).load_state_dict(state)
    record = read_record(state)
    old = {**record, "config": {**record["config"], **NO_CHANGES}}
    build().load_state_dict({**state, RECORD_KEY: JsonRecord(old).text})


def test_many_differences_are_named_in_part(build, changed):
    other = changed(hidden_act="relu", layer_norm_eps=1e-3, num_attention_heads=2, a=1, b=2, c=3, d=4)
    with pytest.raises(BertFusedError, match=r"\(a None, not 1; .*; and 2 more settings\)"):
        build(bert_model=other).load_state_dict(build().state_dict())


def test_a_configuration_that_its_class_cannot_read_is_compared_as_it_is(bert_dir):
    present = recorded_config(BertModel.from_pretrained(bert_dir).config)
    recorded = {**present, "vocab_size": "many", "hidden_act": "relu"}
    assert ("hidden_act", "relu", "gelu") in config_differences(recorded, present)
    kinds = [{"model_type": kind, "a": 1} for kind in ("new in transformers 6", "bert")]
    assert config_differences(*kinds) == [("model_type", "new in transformers 6", "bert")]
    assert config_differences(kinds[0], {**kinds[0], "a": 2}) == [("a", 1, 2)]


def test_the_key_of_the_cache_has_the_same_definition(bert_dir, changed):
    def key(name, layers="-1"):
        return identity_fingerprint(describe_identity(FrozenBert.from_pretrained(name, layers)))

    assert key(changed(**NO_CHANGES)) == key(bert_dir) == key(bert_dir, "2")
    others = [changed(**{name: value}) for name, value in CHANGES.items()]
    assert len({key(name) for name in (bert_dir, changed(made_in="here"), *others)}) == 5
    assert key(bert_dir, "1") != key(bert_dir)
    bert = FrozenBert.from_pretrained(bert_dir)
    with torch.no_grad():
        next(bert.model.parameters()).view(-1)[0] += 1e-6
    assert identity_fingerprint(describe_identity(bert)) != key(bert_dir)
    bert = FrozenBert.from_pretrained(bert_dir)
    bert.model.encoder.layer = torch.nn.ModuleList(reversed(bert.model.encoder.layer))
    assert identity_fingerprint(describe_identity(bert)) != key(bert_dir)


def test_a_folder_of_the_same_weights_is_named_in_the_log(build, changed, tmp_path, caplog):
    caplog.set_level("INFO")

    def folder(dtype="fp16", **options):
        cfg = Namespace(bert_cache=str(tmp_path / "cache"), bert_cache_dtype=dtype)
        data = SimpleNamespace(word_pieces=word_pieces_of([]), use_states=use)
        caplog.clear()
        BertCache(cfg, build(**options)).use_for(data, "train.en")
        return used[-1]

    used = []

    def use(states):
        used.append(states.folder.parent)

    first = folder()
    assert "same weights" not in caplog.text
    folder(bert_model=changed(layer_norm_eps=1e-3))
    message = "BERT cache: {} holds states of the same weights and is not used, since this differs: {}"
    assert message.format(first, "config {") in caplog.text
    assert '"layer_norm_eps": 0.001} here' in caplog.text
    folder(bert_layer="1")
    assert message.format(first, "layers [2] there, [1] here") in caplog.text
    folder(dtype="bf16")
    assert message.format(first, 'number format "fp16" there, "bf16" here') in caplog.text
    assert len(set(used)) == 4
    folder()
    assert "same weights" not in caplog.text


def test_a_description_that_was_cut_is_none(tmp_path):
    for text in ("", "{"):
        (tmp_path / "bert.json").write_text(text)
        assert read_description(tmp_path) is None


def test_opening_the_cache_warns_of_small_shared_memory(build, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(bert_cache, "_ENOUGH", 2**60)
    cfg = Namespace(bert_cache=str(tmp_path), bert_cache_dtype="fp16")
    BertCache(cfg, build())
    assert [each.levelname for each in caplog.records if "/dev/shm has only" in each.message] == ["WARNING"]


# --- the warning for containers whose shared memory is small


@pytest.mark.parametrize(("size", "warned"), [(64 * 2**20, True), (2**30 - 1, True), (2**30, False)])
def test_small_shared_memory_is_named_with_the_remedies(monkeypatch, caplog, size, warned):
    monkeypatch.setattr(bert_cache.shutil, "disk_usage", lambda path: SimpleNamespace(total=size))
    warn_of_small_shared_memory()
    assert len(caplog.messages) == warned
    for said in caplog.messages:
        remedies = ("--shm-size 2g", "--ipc=host", "--num-workers 0")
        assert said.startswith(f"/dev/shm has only {size / 2**20:,.0f} MiB, and worker processes pass batches")
        assert all(remedy in said and f"`{remedy}`" in text_of("docs/workflow.md") for remedy in remedies)


def test_a_system_without_shared_memory(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(bert_cache, "SHARED_MEMORY", tmp_path / "none")
    warn_of_small_shared_memory()
    assert caplog.messages == []
