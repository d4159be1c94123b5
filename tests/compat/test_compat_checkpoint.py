"""Checkpoints of fairseq load with an allow-list of types, and the values come back as they were."""

import argparse
import io
import pickle
from pathlib import Path

import fairseq.distributed.utils
import numpy as np
import pytest
import torch
from compat_states import round_trip, save, stock_state
from fairseq import checkpoint_utils
from omegaconf import DictConfig, OmegaConf

from fairseq_compat import checkpoint


@pytest.mark.parametrize("zipped", [True, False])
def test_a_stock_checkpoint_loads(tmp_path, zipped):
    path = save(stock_state(), tmp_path / "stock.pt", _use_new_zipfile_serialization=zipped)

    state = checkpoint_utils.load_checkpoint_to_cpu(path)

    assert isinstance(state["cfg"], DictConfig)
    assert state["cfg"].model.arch == "transformer_tiny"
    assert torch.equal(state["model"]["weight"], torch.arange(6.0).reshape(2, 3))
    extra = state["extra_state"]
    assert type(extra["val_loss"]) is np.float64
    assert extra["val_loss"] == 1.25
    counts = dict((key, value) for _, key, _, value in extra["metrics"]["default"])["_bleu_counts"]["val"]
    assert type(counts) is np.ndarray
    assert counts.tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize("weights_only", [None, True, False])
def test_fairseq_main_gives_weights_only_and_loads(tmp_path, weights_only):
    with open(save(stock_state(), tmp_path / "stock.pt"), "rb") as file:
        state = checkpoint_utils.torch.load(file, map_location=torch.device("cpu"), weights_only=weights_only)
    assert type(state["extra_state"]["val_loss"]) is np.float64


def test_a_config_object_loads_with_its_flags_and_namespace():
    model = argparse.Namespace(arch="x", lr=[0.1], size=np.int64(3))
    cfg = OmegaConf.create(
        {"model": model, "a": [1, 2.5, None, True, "s", {}], "ref": "${a}"}, flags={"allow_objects": True}
    )
    OmegaConf.set_struct(cfg, True)

    loaded = round_trip({"cfg": cfg})["cfg"]

    assert loaded == cfg
    assert loaded.ref == cfg.a
    assert OmegaConf.is_struct(loaded)


@pytest.mark.parametrize(
    "value",
    [
        np.float64(1.5),
        np.float32(-2),
        np.int64(2**40),
        np.bool_(True),
        np.str_("naïve"),
        np.bytes_(b"ab"),
        np.complex128(1 + 2j),
        np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.array(["x", "yy"]),
        np.array(3.5),
        np.zeros((0, 4)),
        np.array([True, False]),
    ],
    ids=repr,
)
def test_numpy_values_come_back_as_they_were(value):
    nested = round_trip({"a": [value, (value,)], "b": argparse.Namespace(c={"d": value})})

    for loaded in (nested["a"][0], nested["a"][1][0], nested["b"].c["d"]):
        assert type(loaded) is type(value)
        assert loaded.dtype == value.dtype
        assert loaded.shape == value.shape
        assert np.array_equal(loaded, value)


@pytest.mark.parametrize("core", ["core", "_core"])
def test_numpy_values_of_another_numpy_version_load(core, tmp_path):
    ours = np.float64(1).__reduce__()[0].__module__.encode()
    theirs = b"numpy." + core.encode() + b".multiarray"
    path = save({"x": np.float64(3), "y": np.arange(2)}, tmp_path / "c.pt", _use_new_zipfile_serialization=False)
    Path(path).write_bytes(Path(path).read_bytes().replace(b"c" + ours + b"\n", b"c" + theirs + b"\n"))

    with open(path, "rb") as file:
        state = checkpoint.load(file)

    assert state["x"] == 3
    assert state["y"].tolist() == [0, 1]


def test_what_one_process_broadcasts_to_another_loads():
    distributed = fairseq.distributed.utils
    tensors = []
    state = distributed._split_tensors_from_obj({"w": torch.ones(2), "cfg": OmegaConf.create({"a": 1})}, tensors)
    sizes = [{"size": each.size(), "dtype": each.dtype, "device": each.device} for each in tensors]
    received = []
    for sent in (state, sizes):
        buffer = io.BytesIO()
        torch.save(sent, buffer)
        buffer.seek(0)
        received.append(distributed.torch.load(buffer, map_location="cpu"))
    assert received.pop() == sizes
    [received] = received
    assert distributed._put_tensors_in_obj(received, tensors)["w"].tolist() == [1, 1]
    assert received["cfg"] == {"a": 1}


def test_torch_load_itself_is_left_alone(tmp_path):
    path = save({"args": argparse.Namespace()}, tmp_path / "c.pt")
    allowed = set(torch.serialization.get_safe_globals())  # torch and others have put theirs there
    checkpoint_utils.load_checkpoint_to_cpu(save(stock_state(), tmp_path / "stock.pt"))

    assert torch.load.__module__ == "torch.serialization"
    assert set(torch.serialization.get_safe_globals()) == allowed
    with pytest.raises(pickle.UnpicklingError, match=r"argparse\.Namespace"):
        torch.load(path, weights_only=True)
