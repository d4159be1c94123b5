"""A file that is no checkpoint is refused with the same words wherever one is opened."""

import pickle
from pathlib import Path

import pytest
import torch

from bert_fused_plugin.checkpoints.reading import read_saved
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
    assert refusal(gone, given=given) == f"{given or gone} {missing}"
    assert refusal(tmp_path, given=given) == f"{given or tmp_path} cannot be read: Is a directory; give another file"
    for content in ([1, 2], {"w": torch.ones(2)}, {"model": "transformer"}):
        torch.save(content, other)
        assert refusal(other, given=given) == f"{given or other} holds no model of fairseq; give another file"
    cut.write_bytes(other.read_bytes()[:100])
    colon = f"{given}: " if given else ""
    assert refusal(cut, given=given).startswith(f"{colon}checkpoint {cut} cannot be read: it is cut off")


def test_what_another_reader_raises_is_told_with_its_kind(tmp_path):
    def read(path):
        raise pickle.UnpicklingError(f"in {Path(path).name}")

    message = "x.bin holds no model of fairseq (UnpicklingError: in x.bin); give another file"
    assert refusal("x.bin", read=read) == message
