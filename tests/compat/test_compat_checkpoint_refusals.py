"""Checkpoints that hold anything else are refused by name, and nothing in them runs."""

import argparse
import builtins
import functools
import importlib
import operator
import os
import subprocess
import sys
import types
from pathlib import Path

import fairseq.distributed.utils
import numpy as np
import pytest
import torch
from compat_states import TRUST, round_trip, save, stock_state
from fairseq import checkpoint_utils
from helpers import Call
from omegaconf import OmegaConf

from fairseq_compat import checkpoint
from fairseq_compat.checkpoint import CheckpointError

# where a checkpoint may hold something: functions of its state and of what is held
PLACES = {
    "alone": lambda state, payload: payload,
    "in extra_state": lambda state, payload: {**state, "extra_state": (payload,)},
    "in cfg": lambda state, payload: {**state, "cfg": {**state["cfg"], "task": {"source_lang": payload}}},
    "in a Namespace": lambda state, payload: {**state, "args": argparse.Namespace(extra=[{"x": payload}])},
    "in an OmegaConf object": lambda state, payload: {
        **state, "cfg": OmegaConf.create({"a": argparse.Namespace(b=payload)}, flags={"allow_objects": True}),
    },
}  # fmt: skip


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_a_pickle_that_would_write_a_file_does_not_run(tmp_path, place, zipped):
    mark = tmp_path / "mark"
    state = PLACES[place](stock_state(), Call(os.system, f"touch '{mark}'"))
    path = save(state, tmp_path / "evil.pt", _use_new_zipfile_serialization=zipped)

    with pytest.raises(CheckpointError, match=rf"evil\.pt is refused: it holds posix\.system.*{TRUST}=1"):
        checkpoint_utils.load_checkpoint_to_cpu(path)

    assert not mark.exists()


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("module", [checkpoint_utils, fairseq.distributed.utils], ids=lambda module: module.__name__)
def test_weights_only_of_fairseq_main_does_not_open_the_door(tmp_path, module, weights_only):
    mark = tmp_path / "mark"
    path = save({"x": Call(os.system, f"touch '{mark}'")}, tmp_path / "evil.pt")

    with open(path, "rb") as file, pytest.raises(CheckpointError, match=r"posix\.system"):
        module.torch.load(file, map_location="cpu", weights_only=weights_only)

    assert not mark.exists()


@pytest.mark.parametrize("place", PLACES)
def test_with_the_opt_out_it_does_run(tmp_path, monkeypatch, place):
    monkeypatch.setenv(TRUST, "1")
    mark = tmp_path / "mark"
    path = save(PLACES[place](stock_state(), Call(os.system, f"touch '{mark}'")), tmp_path / "evil.pt")

    with open(path, "rb") as file:
        checkpoint.load(file)

    assert mark.exists()


GADGETS = {
    "builtins.eval": Call(builtins.eval, "1"),
    "builtins.getattr": Call(getattr, argparse.Namespace(x=1), "x"),
    "_operator.getitem": Call(operator.getitem, [1], 0),
    "functools.partial": Call(functools.partial, str),
    f"{open.__module__}.open": Call(open, os.devnull),  # io, in Python 3.12 _io
    "torch.storage._load_from_bytes": Call(torch.storage._load_from_bytes, b""),
    "subprocess.Popen": Call(subprocess.Popen, ["true"]),
    "importlib.import_module": Call(importlib.import_module, "this"),
    "functools.partial, types.SimpleNamespace": [Call(functools.partial, str), types.SimpleNamespace()],
    "types.SimpleNamespace": types.SimpleNamespace(x=1),
    "numpy.dtype('O8')": np.array([None], dtype=object),
    "numpy.dtype('V12')": np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
    "numpy.dtype('O')": Call(np.dtype, "O"),
    "numpy.dtype({": Call(np.dtype, {"names": ["a"], "formats": ["O"]}),
}


@pytest.mark.parametrize("name", GADGETS)
def test_whatever_else_is_refused_by_name_also_with_another_value_of_the_opt_out(tmp_path, monkeypatch, name):
    monkeypatch.setenv(TRUST, "0")
    path = save({"model": {}, "x": GADGETS[name]}, tmp_path / "c.pt")
    with pytest.raises(CheckpointError) as refused:
        checkpoint_utils.load_checkpoint_to_cpu(path)
    assert f"it holds {name}" in str(refused.value)
    assert TRUST in str(refused.value)


def test_numpy_layouts_that_reach_beyond_their_memory_have_no_effect():
    # numpy's own dtype.__setstate__ takes this and then reads a million bytes off: fields at an offset
    layout = (3, "<", None, ("a",), {"a": (np.dtype("i8"), 10**6)}, -1, -1, 16)

    class Forged:
        def __reduce__(self):
            return np.dtype, ("i8", False, True), layout

    class Array:
        def __reduce__(self):
            return np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), (1, (1,), Forged(), False, b"A" * 8)

    loaded = round_trip({"x": Array()})["x"]
    assert loaded.dtype == np.dtype("<i8")
    assert loaded.dtype.fields is None


@pytest.mark.parametrize("shape", [(2,), (10**12,)])
def test_an_array_whose_shape_does_not_fit_its_bytes_is_refused(shape):
    class Array:
        def __reduce__(self):
            state = (1, shape, np.dtype("i8"), False, b"A" * 8)
            return np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state

    with pytest.raises(CheckpointError, match="cannot be read"):
        round_trip({"x": Array()})


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("keep", [0.0, 0.001, 0.5, 0.99])
def test_a_checkpoint_cut_short_is_named(tmp_path, zipped, keep):
    path = Path(save(stock_state(), tmp_path / "half.pt", _use_new_zipfile_serialization=zipped))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(CheckpointError, match=r"checkpoint .*half\.pt cannot be read: it is cut off"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


@pytest.mark.system
def test_a_command_ends_with_the_message_and_no_stack_trace(tmp_path):
    path = save({"x": Call(os.system, "true")}, tmp_path / "evil.pt")
    code = f"from fairseq import checkpoint_utils; checkpoint_utils.load_checkpoint_to_cpu({path!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"error: checkpoint {path} is refused")
