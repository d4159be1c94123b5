"""Reads fairseq checkpoints without running what a pickle says: an allow-list of types.

The two modules of fairseq that read checkpoints get ``load`` instead of ``torch.load``, which itself is not changed.  A
file that holds other types is refused, unless the environment says FAIRSEQ_COMPAT_TRUST_CHECKPOINTS=1.

What ``allowed_globals`` must not give away: a pickle can call the object of a name with arguments from the file, and if
it is a class, fill an instance through ``__setstate__`` or its ``__dict__``.
"""

import argparse
import collections
import contextlib
import os
import pickle
import re
import sys
import threading
import typing
from _compat_pickle import IMPORT_MAPPING  # of pickle
from typing import Any, Dict, List

import numpy as np
import torch

TRUST_VARIABLE = "FAIRSEQ_COMPAT_TRUST_CHECKPOINTS"
_LIST_OF_TORCH = threading.RLock()  # all threads share the list, and after each file our types are taken from it


class CheckpointError(pickle.UnpicklingError):
    """A checkpoint that is damaged or holds types that are not allowed."""


class PlainDtype:
    """Stands in for a numpy dtype, whose own ``__setstate__`` takes layouts that read any memory."""

    def __init__(self, code: str, align: bool = False, copy: bool = False) -> None:
        self.dtype = np.dtype(code if type(code) is str else "O")
        if self.dtype.kind not in "biufcSU":  # numbers and strings, no objects and no records
            raise pickle.UnpicklingError(f"GLOBAL numpy.dtype({code!r})")

    def __setstate__(self, state: Any) -> None:
        """Take the byte order; the size of a string type is part of its code."""
        self.dtype = self.dtype.newbyteorder(state[1])


class PlainArray:
    """Stands in for a numpy array while a checkpoint is read; see `_unwrap`."""

    array: Any = None

    def __init__(self, *_empty: Any) -> None:
        """Called with what numpy's _reconstruct gets: (ndarray, (0,), b'b')."""

    def __setstate__(self, state: Any) -> None:
        """Take numpy's (version, shape, dtype, is_fortran, bytes), with sizes checked by numpy."""
        _, shape, plain, is_fortran, raw = state
        flat = np.frombuffer(raw, plain.dtype).copy()
        self.array = flat.reshape(shape, order="F" if is_fortran else "C")


def _unwrap(value: Any) -> Any:
    """Return *value* with arrays in the place of `PlainArray` in its dicts, lists, tuples and namespaces."""
    kind = type(value)
    if kind is PlainArray:
        return value.array
    if kind in (list, tuple):
        return kind(_unwrap(item) for item in value)
    if kind in (dict, collections.OrderedDict):
        for key in value:
            value[key] = _unwrap(value[key])
    elif kind is argparse.Namespace:
        _unwrap(vars(value))
    return value


def allowed_globals() -> Dict[str, Any]:
    """Return what a fairseq checkpoint may hold besides torch's own types, by its name in the pickle."""
    from fairseq.data.dictionary import Dictionary
    from fairseq.distributed.utils import _TensorPlaceholder
    from fairseq.logging.meters import AverageMeter, StopwatchMeter, TimeMeter
    from omegaconf import DictConfig, ListConfig, base, nodes

    # holders of data, whose constructors and __setstate__ (of OmegaConf's alone) import, call and open nothing
    holders = (
        argparse.Namespace,  # "args", and the model's part of "cfg"
        Dictionary,  # "task_state" of speech models
        *(DictConfig, ListConfig, _TensorPlaceholder),  # "cfg", also when broadcast
        *(nodes.AnyNode, nodes.BooleanNode, nodes.FloatNode, nodes.IntegerNode, nodes.StringNode),
        *(base.ContainerMetadata, base.Metadata, collections.defaultdict),  # OmegaConf's metadata
        *(bool, bytes, dict, float, int, list, str, tuple),  # types of values in it; to call one converts a value
        *(AverageMeter, StopwatchMeter, TimeMeter),  # objects in fairseq 0.6 to 0.8, numbers since
    )
    allowed: Dict[str, Any] = {f"{kind.__module__}.{kind.__name__}": kind for kind in holders}
    allowed.update({f"fairseq.meters.{kind.__name__}": kind for kind in (AverageMeter, StopwatchMeter, TimeMeter)})
    allowed["typing.Any"] = typing.Any  # in OmegaConf's metadata; cannot be called
    # of --eval-bleu in the metrics; numpy's own functions can be made to read and free any memory, so these are ours
    allowed.update({"numpy.dtype": PlainDtype, "numpy.ndarray": PlainArray})
    for core in ("core", "_core"):  # of numpy 1 and 2
        allowed[f"numpy.{core}.multiarray._reconstruct"] = PlainArray
        allowed[f"numpy.{core}.multiarray.scalar"] = lambda plain, raw: np.frombuffer(raw, plain.dtype, count=1)[0]
    return allowed


def load(file: Any, map_location: Any = None, weights_only: Any = None) -> Any:
    """Read a checkpoint as ``torch.load`` does, but with the allow-list, and with errors that name the file.

    *weights_only* changes nothing: fairseq's main says False here, which would run what the pickle says.
    """
    if os.environ.get(TRUST_VARIABLE) == "1":
        return torch.load(file, map_location=map_location, weights_only=False)
    allowed = allowed_globals()
    try:
        entries: List[Any] = [(value, name) for name, value in allowed.items()]
        with _LIST_OF_TORCH, torch.serialization.safe_globals(entries):
            return _unwrap(torch.load(file, map_location=map_location, weights_only=True))
    except MemoryError:
        raise
    except Exception as error:  # a damaged file can raise anything, OSError too
        raise _explain(error, file, allowed) from None


def _explain(error: Exception, file: Any, allowed: Dict[str, Any]) -> CheckpointError:
    """Return the error for the user: the file holds types that are not allowed, or it is damaged."""
    name = getattr(file, "name", None) or "the state sent by another process"
    unsafe = re.findall(r"GLOBAL (\S+)", str(error))[:1]
    with contextlib.suppress(Exception):  # not in zip format: torch cannot list them all
        file.seek(0)
        unsafe = sorted(set(torch.serialization.get_unsafe_globals_in_checkpoint(file)) - set(allowed)) or unsafe
    # protocol 2 writes the names of modules in Python 2, such as commands for subprocess
    unsafe = [re.sub(r"^.*(?=\.)", lambda module: IMPORT_MAPPING.get(module[0], module[0]), name) for name in unsafe]
    if unsafe and isinstance(error, pickle.UnpicklingError):
        return CheckpointError(
            f"checkpoint {name} is refused: it holds {', '.join(unsafe)}, which no fairseq checkpoint needs and which "
            f"may run code when it is loaded. If you trust where the file comes from, set {TRUST_VARIABLE}=1 in the "
            "environment"
        )
    lines = str(error).splitlines() or [type(error).__name__]
    reason = next((line.strip() for line in lines if "WeightsUnpickler error" in line), lines[0])
    return CheckpointError(
        f"checkpoint {name} cannot be read: it is cut off, damaged or no checkpoint at all ({reason}). "
        "Copy it again, or use another one of the same folder"
    )


def _show(kind: Any, error: BaseException, trace: Any, stock: Any = sys.excepthook) -> None:
    """End a command with the message of a `CheckpointError` instead of a stack trace."""
    if isinstance(error, CheckpointError):
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
    else:
        stock(kind, error, trace)


sys.excepthook = _show
