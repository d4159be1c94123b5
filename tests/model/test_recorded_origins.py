"""The record of BERT keeps where the parameters come from."""

import os

import pytest
import torch

from bert_fused_plugin.bert.record import read_record, recorded_origins, without_folders

BEGAN = [("/some/where/plain.pt", 1240), ("/older.pt", None)]


@pytest.fixture
def begun(build):
    """The parameters of a model that began from others."""
    model = build()
    model.encoder.bert_record.note_origins(BEGAN)
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
    record = read_record(moved)
    assert {**record, "began_from": None} == {**read_record(begun), "began_from": None}
    state = build().state_dict()
    assert without_folders(state) is state
