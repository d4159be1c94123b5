"""A file that is no checkpoint is refused with the same words wherever one is opened."""

import pickle
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from bert_fused_plugin.checkpoints.reading import read_saved
from bert_fused_plugin.checkpoints.record import origins
from bert_fused_plugin.errors import BertFusedError


def refusal(path, **options):
    with pytest.raises(BertFusedError) as caught:
        read_saved(path, "give another file", **options)
    [message] = caught.value.errors
    return message


@pytest.mark.parametrize("given", ["", "--run a=FILE"])
def test_files_that_are_no_checkpoints_are_refused(tmp_path, given):
    gone, other, cut = tmp_path / "gone.pt", tmp_path / "other.pt", tmp_path / "cut.pt"
    missing = "cannot be read: No such file or directory; give another file"
    assert refusal(gone, name=given) == f"{given or gone} {missing}"
    assert refusal(tmp_path, name=given) == f"{given or tmp_path} cannot be read: Is a directory; give another file"
    for content in ([1, 2], {"w": torch.ones(2)}, {"model": "transformer"}):
        torch.save(content, other)
        assert refusal(other, name=given) == f"{given or other} holds no model of fairseq; give another file"
    cut.write_bytes(other.read_bytes()[:100])
    colon = f"{given}: " if given else ""
    assert refusal(cut, name=given).startswith(f"{colon}checkpoint {cut} cannot be read: it is cut off")


def test_what_another_reader_raises_is_told_with_its_kind(tmp_path):
    def read(path):
        raise pickle.UnpicklingError(f"in {Path(path).name}")

    message = "x.bin holds no model of fairseq (UnpicklingError: in x.bin); give another file"
    assert refusal("x.bin", read=read) == message


# --- from which checkpoint a training began


RESTORED = {"restore_file": "base.pt", "reset_optimizer": True}


def checkpoint(launches, **flags):
    given = {"finetune_from_model": None, "restore_file": "checkpoint_last.pt", "reset_optimizer": False, **flags}
    history = [{"num_updates": count} for count in launches]
    return {"cfg": {"checkpoint": given}, "args": None, "optimizer_history": history, "model": {}}


@pytest.mark.parametrize(
    ("launches", "flags", "expected"),
    [
        ([30], {}, []),
        ([10, 20, 20], {}, []),  # resumed twice
        ([100, 30], {"finetune_from_model": "base.pt"}, [("base.pt", 100)]),
        ([30, 100], {"finetune_from_model": "base.pt"}, [("base.pt", 30)]),
        ([50, 100, 30, 70], {"finetune_from_model": "base.pt"}, [("base.pt", 100)]),  # both were resumed
        ([50, 100, 30, 70], {}, [(None, 100)]),  # the flag was left out when the training resumed
        ([30, 100, 200], {"finetune_from_model": "base.pt"}, [("base.pt", None)]),  # 30 or 100
        ([500, 100, 30], {"finetune_from_model": "base.pt"}, [("base.pt", 100), (None, 500)]),
        ([100, 200], RESTORED, [("base.pt", 100)]),
        ([100, 100], RESTORED, [("base.pt", 100)]),
        ([100, 200], {"restore_file": "base.pt"}, []),  # which goes on counting
        ([100, 200], {"reset_optimizer": True}, []),  # of checkpoint_last.pt, which was not there at the start
        ([30], {"finetune_from_model": "base.pt"}, [("base.pt", None)]),
    ],
)
def test_what_fairseq_knows(launches, flags, expected):
    saved = checkpoint(launches, **flags)
    assert origins(saved) == expected
    assert origins({**saved, "cfg": OmegaConf.create(saved["cfg"])}) == expected
    assert origins({**saved, "cfg": None, "args": Namespace(**saved["cfg"]["checkpoint"])}) == expected
