"""Names, formats and files that users rely on: what an earlier version wrote is read as it was then."""

import json
import re
import shutil

import pytest
from pinning import MODELS, PINNED, interface, parameters, translations

from bert_fused_plugin.checkpoints.reading import read_checkpoint

RECORDS = ("encoder.bert_record.text", "settings_record.text")
EXPECTED = json.loads((PINNED / "expected.json").read_text(encoding="utf-8"))


def test_no_architecture_flag_or_default_has_gone_or_changed():
    now = interface(PINNED)
    for kind in ("presets", "flags"):
        for name, values in EXPECTED[kind].items():
            assert values.items() <= now[kind][name].items()


def test_new_checkpoints_have_the_parameters_of_old_ones(workspace, tmp_path):
    workspace.train_gru(tmp_path, "--max-update", "1")
    for name, checkpoint in (("fused", workspace.checkpoint), ("gru", tmp_path / "checkpoint_last.pt")):
        old, new = EXPECTED["parameters"][name], parameters(checkpoint)
        for record in RECORDS:  # texts of any length, which old checkpoints need not have
            assert new.pop(record, None) or record not in old
            old.pop(record, None)
        for side in ("encoder", "decoder"):  # a constant of the sinusoidal positions, which fairseq's main has no more
            old.pop(f"{side}.embed_positions._float_tensor", None)
            new.pop(f"{side}.embed_positions._float_tensor", None)
        assert new == old


@pytest.mark.parametrize("name", MODELS)
def test_an_old_model_directory_translates_as_it_did(name):
    for (text, score), (old_text, old_score) in zip(translations(name, PINNED / name), EXPECTED["translations"][name]):
        assert text == old_text
        assert score == pytest.approx(old_score, abs=1e-4)


def test_an_old_checkpoint_goes_on_training_and_translates(workspace, tmp_path):
    shutil.copy(PINNED / "checkpoint_last.pt", tmp_path)
    bert = ["--bert-model", PINNED / "fused" / "bert"]
    done = workspace.train(*bert, "--bert-drop-net", "0.5", "--max-epoch", "3", save_dir=tmp_path)
    assert re.search(r"Loaded checkpoint \S+ \(epoch 3 @ [1-9]\d* updates\)", done.stdout)
    state, before = (read_checkpoint(folder / "checkpoint_last.pt") for folder in (tmp_path, PINNED))
    updates = [old["optimizer_history"][-1]["num_updates"] for old in (before, state)]
    assert updates[1] * 2 == updates[0] * 3
    overrides = ["--model-overrides", repr({"bert_model": str(bert[1])})]
    workspace.generate("--path", PINNED / "checkpoint_last.pt", *overrides)
