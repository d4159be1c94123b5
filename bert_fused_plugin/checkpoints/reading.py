"""Reads files that torch or fairseq wrote, with one sentence for each cause why a file cannot be used."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.utils import split_paths
from omegaconf import OmegaConf
from torch import Tensor

from bert_fused_plugin.errors import BertFusedError, raise_all
from fairseq_compat.checkpoint import CheckpointError, load

_MODEL = "model of fairseq"
_REMEDY = "give a checkpoint that fairseq-train wrote, such as its checkpoint_best.pt"


def _load(path: str) -> Any:
    """Return the content of the file *path* on the CPU; nothing that the file holds is executed."""
    with open(path, "rb") as file:
        return load(file, map_location="cpu")


def read_saved(
    path: Union[str, Path], remedy: str = _REMEDY, *, name: str = "", read: Callable[[str], Any] = _load
) -> Dict[str, Any]:
    """Return what *read* makes of the checkpoint in a file, as it was saved; its ``model`` is a dictionary.

    Raises:
        BertFusedError: The file cannot be read, or it is damaged, not safe to read, or no checkpoint of fairseq.  The
            message names the file as *name*, by default by its path, and ends in *remedy*.
    """
    try:
        checkpoint = read(str(path))
    except OSError as error:
        raise BertFusedError(f"{name or path} cannot be read: {error.strerror or error}; {remedy}") from error
    except CheckpointError as error:  # its message names the file and a remedy
        raise BertFusedError(f"{name}: {error}" if name else str(error)) from error
    except Exception as error:  # a file of another kind can raise any exception
        reason = f"{type(error).__name__}: {error}"
        raise BertFusedError(f"{name or path} holds no {_MODEL} ({reason}); {remedy}") from error
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        raise BertFusedError(f"{name or path} holds no {_MODEL}; {remedy}")
    return checkpoint


def read_checkpoint(path: Path, overrides: Optional[Dict[str, Any]] = None, *, name: str = "") -> Dict[str, Any]:
    """Return the checkpoint in *path*, with ``cfg`` from any version of fairseq; the *overrides* replace settings.

    Raises:
        BertFusedError: The file cannot be read, or it is damaged, not safe to read, or no checkpoint of fairseq,
            or its training has diverged.
    """
    state = read_saved(path, name=name, read=lambda file: load_checkpoint_to_cpu(file, arg_overrides=overrides))
    if state.get("cfg") is None:
        raise BertFusedError(f"{name or path} holds no {_MODEL}; {_REMEDY}")
    raise_all(diverged(name or path, state["model"]))
    return {**state, "args": None}


def require_architecture(file: object, state: Mapping[str, Any]) -> None:
    """Raise a `BertFusedError` if the checkpoint *state*, in *file*, belongs to a plug-in that is not imported.

    Raises:
        BertFusedError: it belongs to a plug-in that is not imported.
    """
    flags = saved_flags(state, "model")
    name = flags.get("_name") or flags.get("arch")
    if name not in {**MODEL_REGISTRY, **ARCH_MODEL_REGISTRY}:
        remedy = f"give its plug-in: --user-dir {saved_flags(state, 'common').get('user_dir')}"
        raise BertFusedError(f"{file} was trained with --arch {name}, which is unknown; {remedy}")


def diverged(checkpoint: object, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence if some parameters of the *checkpoint* are infinite, or no numbers, somewhere."""
    names = [
        name
        for name, value in state_dict.items()
        # fairseq leaves _float_tensor without a value: it only says what kind of number a module computes with
        if torch.is_tensor(value) and value.is_floating_point() and not name.endswith("_float_tensor")
        # A finite sum has finite terms only, and is much faster.  A sum of large finite numbers may be infinite.
        if not (torch.isfinite(value.sum()) or torch.isfinite(value).all())
    ]
    if not names:
        return []
    return [
        f"{checkpoint} has numbers that are not finite in {len(names)} parameters, such as {names[0]}: its training "
        "has diverged; take an earlier checkpoint, or train again with a lower --lr or with --clip-norm"
    ]


def saved_flags(checkpoint: Mapping[str, Any], *sections: str) -> Dict[str, Any]:
    """Return the flags in *sections* of fairseq's settings, such as ``model``; fairseq up to 0.9 had no sections."""
    if isinstance(checkpoint.get("args"), Namespace):
        return vars(checkpoint["args"])
    cfg: Any = checkpoint.get("cfg") or {}
    if OmegaConf.is_config(cfg):
        cfg = OmegaConf.to_container(cfg)
    flags: Dict[str, Any] = {}
    for section in sections:
        settings = cfg.get(section) or {}
        flags.update(vars(settings) if isinstance(settings, Namespace) else settings)
    return flags


def data_directory(path: str, flags: Mapping[str, Any]) -> List[str]:
    """Return the first data directory of the training that wrote *path*, or nothing if its *flags* name none."""
    data = flags.get("data") or []
    # a relative one began, like a relative --save-dir, in the working directory of that training
    folder, save_dir = os.path.dirname(os.path.abspath(path)), os.sep + os.path.normpath(flags.get("save_dir") or "")
    began_in = folder[: -len(save_dir)] if folder.endswith(save_dir) else ""
    first = (split_paths(data) if isinstance(data, str) else data)[:1]
    return [folder if name == "." else os.path.join(began_in, name) for name in first]  # "." of an exported model
