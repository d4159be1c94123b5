"""Files of unknown origin, in each place where one is read, run nothing and overwrite nothing."""

import json
import os
import shutil

import pytest
import torch
from helpers import Call
from safetensors.torch import load_file


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "it-ran"


@pytest.fixture
def evil(workspace, tmp_path, mark):
    """A checkpoint that is complete, and holds a pickle that would run a command."""
    state = torch.load(workspace.checkpoint, weights_only=False)
    state["extra_state"]["more"] = Call(os.system, f"touch '{mark}'")
    path = tmp_path / "evil.pt"
    torch.save(state, path)
    return path


def assert_refused(done, mark, said=""):
    assert done.returncode != 0
    assert said in done.stderr
    assert not mark.exists()


def test_a_checkpoint_in_training_and_in_translation(workspace, tmp_path, evil, mark):
    done = workspace.train("--restore-file", evil, "--max-update", "1", save_dir=tmp_path / "save", ok=False)
    assert_refused(done, mark, "posix.system")
    assert_refused(workspace.generate("--path", f"{workspace.checkpoint}:{evil}", ok=False), mark, "posix.system")


def test_a_checkpoint_given_to_a_command(workspace, tmp_path, evil, mark):
    """The others read checkpoints in the same way, as a rule of test_house_rules.py says."""
    output = tmp_path / "out.pt"
    assert_refused(workspace.run("bert-fused-average", "--inputs", evil, "--output", output, ok=False), mark)
    assert not output.exists()


def test_weights_of_bert_as_a_pickle(workspace, tmp_path, mark):
    bert = tmp_path / "bert"
    shutil.copytree(workspace.bert_dir, bert)
    weights = {**load_file(bert / "model.safetensors"), "more": Call(os.system, f"touch '{mark}'")}
    (bert / "model.safetensors").unlink()
    torch.save(weights, bert / "pytorch_model.bin")
    done = workspace.train("--bert-model", bert, "--max-update", "1", save_dir=tmp_path / "save", ok=False)
    assert_refused(done, mark)


def test_code_beside_a_model_or_a_tokenizer_is_not_imported(workspace, tmp_path, mark):
    bert = tmp_path / "bert"
    shutil.copytree(workspace.bert_dir, bert)
    (bert / "mine.py").write_text(f"open({str(mark)!r}, 'w')\nclass Mine: pass\n", encoding="utf-8")
    for name, key in (("config.json", "AutoModel"), ("tokenizer_config.json", "AutoTokenizer")):
        config = json.loads((bert / name).read_text(encoding="utf-8"))
        config["auto_map"] = {"AutoConfig": "mine.Mine", key: "mine.Mine"}
        config["model_type"] = "unheard-of"
        (bert / name).write_text(json.dumps(config), encoding="utf-8")
        workspace.train("--bert-model", bert, "--max-update", "1", save_dir=tmp_path / "save", ok=False)
        assert not mark.exists()


def test_a_checkpoint_cannot_choose_where_files_go(workspace, tmp_path):
    """Paths that a checkpoint brings, of the cache and of save-dirs, are not those that translation writes to."""
    state = torch.load(workspace.checkpoint, weights_only=False)
    outside = tmp_path / "outside"
    for config in (state["cfg"]["task"], state["cfg"]["model"], state["cfg"]["checkpoint"]):
        for name in ("bert_cache", "save_dir", "tensorboard_logdir"):
            if isinstance(config, dict):
                config[name] = str(outside)
            else:
                setattr(config, name, str(outside))
    torch.save(state, tmp_path / "other.pt")
    workspace.generate("--path", tmp_path / "other.pt")
    assert not outside.exists()
