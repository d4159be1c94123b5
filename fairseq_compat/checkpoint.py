"""Reads fairseq checkpoints without running what a pickle says: an allow-list of types.

``fairseq_compat`` puts ``load`` in the place of ``torch.load`` in the two modules of fairseq that
read checkpoints; ``torch.load`` itself is not changed.  A file that holds other types is refused,
unless the environment says FAIRSEQ_COMPAT_TRUST_CHECKPOINTS=1.

What a name in a pickle may do, and so what ``allowed_globals`` must not give away: the object of
that name can be called with arguments from the file, and where it is a class, an instance can be
filled through ``__setstate__`` or its ``__dict__``.
"""

import _compat_pickle  # the tables of pickle
import argparse
import codecs
import collections
import os
import pickle
import re
import sys
import types
import typing
from typing import Any, Dict, List, Optional

import numpy as np
import torch

TRUST_VARIABLE = "FAIRSEQ_COMPAT_TRUST_CHECKPOINTS"

_METERS = ("AverageMeter", "TimeMeter", "StopwatchMeter")
_NODES = ("AnyNode", "BooleanNode", "FloatNode", "IntegerNode", "StringNode")


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


def _plain_scalar(plain: PlainDtype, raw: bytes) -> Any:
    """Return a numpy number or string, as numpy's own ``scalar`` makes it."""
    return np.frombuffer(raw, plain.dtype, count=1)[0]


def _unwrap(value: Any) -> Any:
    """Return *value* with arrays in the place of `PlainArray` in its dicts, lists, tuples and namespaces."""
    kind = type(value)
    if kind is PlainArray:
        return value.array
    if kind is tuple:
        return tuple(_unwrap(item) for item in value)
    if kind is list:
        value[:] = [_unwrap(item) for item in value]
    elif kind in (dict, collections.OrderedDict):
        for key in value:
            value[key] = _unwrap(value[key])
    elif kind is argparse.Namespace:
        _unwrap(vars(value))
    return value


def allowed_globals() -> Dict[str, Any]:
    """Return what a fairseq checkpoint may hold besides torch's own types, by its name in the pickle."""
    import omegaconf
    from fairseq.data.dictionary import Dictionary
    from fairseq.distributed.utils import _TensorPlaceholder
    from fairseq.logging import meters

    # Plain holders of data: neither their constructors nor their __setstate__ (only those of
    # OmegaConf have one) import, call or open anything.
    allowed: Dict[str, Any] = {
        "argparse.Namespace": argparse.Namespace,  # "args", and the model's part of "cfg"
        "collections.defaultdict": collections.defaultdict,  # inside OmegaConf's metadata
        "fairseq.data.dictionary.Dictionary": Dictionary,  # "task_state" of speech models
        "fairseq.distributed.utils._TensorPlaceholder": _TensorPlaceholder,  # broadcast_object
        "omegaconf.base.ContainerMetadata": omegaconf.base.ContainerMetadata,
        "omegaconf.base.Metadata": omegaconf.base.Metadata,
        "omegaconf.dictconfig.DictConfig": omegaconf.DictConfig,  # "cfg", also when broadcast
        "omegaconf.listconfig.ListConfig": omegaconf.ListConfig,
        "typing.Any": typing.Any,  # in OmegaConf's metadata; cannot be called
    }
    for node in _NODES:
        allowed[f"omegaconf.nodes.{node}"] = getattr(omegaconf.nodes, node)
    for meter in _METERS:  # pickled as objects by fairseq 0.6 to 0.8, as numbers since
        allowed[f"fairseq.meters.{meter}"] = getattr(meters, meter)
        allowed[f"fairseq.logging.meters.{meter}"] = getattr(meters, meter)
    # OmegaConf's metadata names the types of values; to call one only converts a value.
    for builtin in (bool, bytes, dict, float, int, list, str, tuple):
        allowed[f"builtins.{builtin.__name__}"] = builtin
    # numpy scalars and arrays (--eval-bleu puts them into the metrics).  numpy's own functions can
    # be made to read and free any memory, so these are ours.  "core" is what numpy 1 wrote.
    allowed["numpy.dtype"] = PlainDtype
    allowed["numpy.ndarray"] = PlainArray
    for core in ("core", "_core"):
        allowed[f"numpy.{core}.multiarray._reconstruct"] = PlainArray
        allowed[f"numpy.{core}.multiarray.scalar"] = _plain_scalar
    return allowed


def load(file: Any, map_location: Any = None, weights_only: Any = None) -> Any:
    """Read a checkpoint as ``torch.load`` does, but with the allow-list, and with errors that name the file.

    *weights_only* changes nothing: fairseq's main says False here, which would run what the pickle says.
    """
    if os.environ.get(TRUST_VARIABLE) == "1":
        return torch.load(file, map_location=map_location, weights_only=False)
    allowed = allowed_globals()
    try:
        if _torch_version() >= (2, 6):
            entries: List[Any] = [(value, name) for name, value in allowed.items()]
            with torch.serialization.safe_globals(entries):
                state = torch.load(file, map_location=map_location, weights_only=True)
        else:
            state = load_with_restricted_pickle(file, map_location, allowed)
        return _unwrap(state)
    except MemoryError:
        raise
    except Exception as error:  # a damaged file can raise anything, OSError too
        raise _explain(error, file, allowed) from None


def load_with_restricted_pickle(file: Any, map_location: Any, allowed: Dict[str, Any]) -> Any:
    """Read a checkpoint with torch 2.0 to 2.5, whose weights_only cannot be told of other types by name.

    This is second best: Python's unpickler looks up nothing but the names below, but unlike torch's it
    lets a file set attributes on the classes of the list.  Can go with support for torch < 2.6.
    """
    tensors = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter")
    names = {**allowed, **{f"torch._utils.{name}": getattr(torch._utils, name) for name in tensors}}
    names.update({f"__builtin__.{t.__name__}": t for t in (bool, dict, float, int, list, set)})
    names.update({"__builtin__.long": int, "__builtin__.unicode": str, "__builtin__.bytes": bytes})
    names["_codecs.encode"] = codecs.encode  # bytes, in protocol 2
    names["collections.OrderedDict"] = collections.OrderedDict
    names["torch.nn.parameter.Parameter"] = torch.nn.Parameter
    names["torch.Size"] = torch.Size

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if f"{module}.{name}" not in names:
                raise pickle.UnpicklingError(f"GLOBAL {module}.{name}")
            return names[f"{module}.{name}"]

    restricted = types.ModuleType("restricted_pickle")
    vars(restricted).update(Unpickler=Unpickler, load=lambda f, **kw: Unpickler(f, **kw).load())
    return torch.load(file, map_location=map_location, pickle_module=restricted, weights_only=False)


def _torch_version() -> "tuple[int, ...]":
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def _explain(error: Exception, file: Any, allowed: Dict[str, Any]) -> CheckpointError:
    """Return the error for the user: the file holds types that are not allowed, or it is damaged."""
    name = getattr(file, "name", None) or "the state sent by another process"
    unsafe = _refused_names(file, allowed) or re.findall(r"GLOBAL (\S+)", str(error))[:1]
    unsafe = [re.sub(r"^.*(?=\.)", _name_since_python_3, name) for name in unsafe]
    if unsafe and isinstance(error, pickle.UnpicklingError):
        return CheckpointError(
            f"checkpoint {name} is refused: it holds {', '.join(unsafe)}, which no fairseq "
            "checkpoint needs and which may run code when it is loaded. If you trust where the "
            f"file comes from, set {TRUST_VARIABLE}=1 in the environment"
        )
    lines = str(error).splitlines() or [type(error).__name__]
    reason = next((line.strip() for line in lines if "WeightsUnpickler error" in line), lines[0])
    return CheckpointError(
        f"checkpoint {name} cannot be read: it is cut off, damaged or no checkpoint at all "
        f"({reason}). Copy it again, or use another one of the same folder"
    )


def _refused_names(file: Any, allowed: Dict[str, Any]) -> Optional[List[str]]:
    """Return all names that are not allowed, or None if torch cannot list them (torch < 2.6, or not in zip format)."""
    try:
        file.seek(0)
        unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    except Exception:
        return None
    return sorted(set(unsafe) - set(allowed))


def _name_since_python_3(module: "re.Match[str]") -> str:
    """Return the present name of a module; protocol 2 writes that of Python 2 (commands for subprocess)."""
    return _compat_pickle.IMPORT_MAPPING.get(module[0], module[0])


def _show_without_trace() -> None:
    """End a command with the message of a `CheckpointError` instead of a stack trace."""
    stock = sys.excepthook

    def show(kind: Any, error: BaseException, trace: Any) -> None:
        if isinstance(error, CheckpointError):
            sys.stdout.flush()
            print(f"error: {error}", file=sys.stderr)
        else:
            stock(kind, error, trace)

    sys.excepthook = show


_show_without_trace()
