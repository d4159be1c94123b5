"""A flag that would do nothing is an error, in a table of flags, command and sentence."""

import os

import pytest
from conftest import ROOT
from in_process import command

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel

TYPED = "is for data sets, and not for the typed lines of fairseq-interactive; leave it out"
ALONE = "--bert-cache-dtype is for --bert-cache, got fp32; add --bert-cache, or leave this flag out"
UNSET = "must not be empty, as it is if a shell variable is not set, got ''; give a directory, or leave the flag out"

CASES = [
    ("--bert-text /nonexistent", "interactive", f"--bert-text {TYPED}"),
    ("--bert-documents /nonexistent", "interactive", "--bert-documents /nonexistent needs --bert-context, which is 0"),
    ("--bert-cache new", "interactive", f"--bert-cache {TYPED}"),
    ("--bert-cache-dtype fp32", "interactive", ALONE),
    ("--bert-cache-dtype fp32", "generate", ALONE),
    ("--bert-text=", "generate", f"--bert-text {UNSET}"),
    ("--bert-documents=", "generate", f"--bert-documents {UNSET}"),
    ("--bert-cache=", "generate", f"--bert-cache {UNSET}"),
]


@pytest.mark.parametrize(("flags", "name", "sentence"), CASES, ids=[f"{name} {flags}" for flags, name, _ in CASES])
def test_a_flag_that_would_do_nothing(workspace, monkeypatch, tmp_path, flags, name, sentence):
    monkeypatch.chdir(tmp_path)
    where = [workspace.data, "--user-dir", ROOT / "bert_fused_plugin", "--task", "bert_fused_translation"]
    pair = ["--source-lang", "en", "--target-lang", "de", "--max-len-b", "5", "--cpu"]
    with pytest.raises(BertFusedError) as error:
        command(name, *where, "--path", workspace.checkpoint, *pair, *flags.split(), text="the dog\n")
    assert sentence in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_the_hub_interface_takes_a_model_that_was_trained_with_them(workspace):
    """Its settings are those of the training."""
    folder, file = os.path.split(workspace.checkpoint)
    nowhere = {"bert_text": "/nonexistent", "bert_cache": "/nonexistent"}
    hub = BertFusedModel.from_pretrained(folder, file, str(workspace.data), eval_bleu=False, **nowhere)
    assert isinstance(hub.translate("the dog", max_len_b=5), str)
