"""Directories of exported models that lost a part on their way: each loss is named."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from bert_fused_plugin.bert.from_flags import locate_bert
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.exporting.model_directory import export_model
from bert_fused_plugin.models.bert_fused import BertFusedModel

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def exported(workspace, codes, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported")
    given = {"subword_nmt": codes}
    export_model(Path(workspace.checkpoint), workspace.data, path / "model", given, with_bert=True)
    return path / "model"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dict.en.txt", "--source-lang en: {0} has no dict.en.txt, only dict.de.txt; "),
        ("bert", "--bert-model ./bert: neither the data directory {0} nor the working directory has this"),
        ("bert/tokenizer.json", "'{0}/bert' cannot be loaded; the directory must hold config.json, the tokenizer's"),
        ("bert/config.json", "'{0}/bert' cannot be loaded; the directory must hold config.json"),
        ("bert/model.safetensors", "'{0}/bert' cannot be loaded; the directory must hold config.json"),
    ],
)  # fmt: skip
def test_a_directory_that_was_not_copied_whole(exported, tmp_path, name, message):
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    os.rename(copy / name, tmp_path / "away")
    with pytest.raises(BertFusedError) as caught:
        BertFusedModel.from_pretrained(str(copy))
    assert message.format(copy) in str(caught.value)


def test_files_that_were_cut_off(exported, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    weights = copy / "bert" / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    with pytest.raises(BertFusedError, match=r"copy/bert' cannot be loaded; the directory must hold .* undamaged"):
        BertFusedModel.from_pretrained(str(copy))
    (copy / "bpecodes").unlink()
    shutil.copy(exported / "bert" / "model.safetensors", weights)
    with pytest.raises(OSError, match="file bpecodes, which belongs into the model's directory, not found"):
        BertFusedModel.from_pretrained(str(copy))
    os.truncate(copy / "model.pt", (copy / "model.pt").stat().st_size // 2)
    with pytest.raises(Exception, match=r"checkpoint .*copy/model.pt cannot be read: it is cut off, damaged"):
        BertFusedModel.from_pretrained(str(copy))


def test_with_other_data_bert_is_named_anew(exported, workspace):
    path = str(exported / "model.pt")
    with pytest.raises(BertFusedError, match=r"with other data: --model-overrides .*'bert_model': 'MODEL_DIR/bert'"):
        load_model_ensemble_and_task([path], arg_overrides={"data": workspace.data})
    overrides = {"data": workspace.data, "bert_model": str(exported / "bert")}
    assert len(load_model_ensemble_and_task([path], arg_overrides=overrides)[0]) == 1


def test_only_names_that_begin_with_a_dot_are_looked_for_in_the_data_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, task = tmp_path / "data", SimpleNamespace(cfg=SimpleNamespace(data=str(tmp_path / "data")))
    for path in (data / "bert", data / "bert-base-uncased", tmp_path / "bert", tmp_path / "here"):
        path.mkdir(parents=True)
    assert locate_bert("bert-base-uncased", task) == "bert-base-uncased"
    assert locate_bert("./bert", task) == f"{data}/bert"
    assert locate_bert("./here", task) == "./here"
    two = SimpleNamespace(cfg=SimpleNamespace(data=f"{tmp_path / 'here'}:{data}"))
    assert locate_bert("./bert", two) == f"{data}/bert"
    with pytest.raises(BertFusedError, match=r"--bert-model ./other: neither the data directory"):
        locate_bert("./other", task)
