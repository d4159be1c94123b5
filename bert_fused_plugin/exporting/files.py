"""Reads checkpoints of fairseq, removes what only training needs, and writes files completely or not at all."""

from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator

import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from omegaconf import OmegaConf
from safetensors import SafetensorError

from bert_fused_plugin.checkpoints.reading import open_checkpoint
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.files import written_whole
from bert_fused_plugin.models.other_parameters import diverged

_REMEDY = "give a checkpoint that fairseq-train wrote, such as its checkpoint_best.pt"


def read_checkpoint(path: Path, **overrides: Any) -> Dict[str, Any]:
    """Return the checkpoint in the file *path* with its settings as ``cfg``, whichever version of fairseq wrote it.

    Args:
        path: the file.
        overrides: settings that replace those of the checkpoint, as with ``--model-overrides``.

    Raises:
        BertFusedError: The file cannot be read, or it is damaged, not safe to read, or no checkpoint of fairseq,
            or its training has diverged.
    """
    state = open_checkpoint(path, _REMEDY, read=lambda name: load_checkpoint_to_cpu(name, arg_overrides=overrides))
    if state.get("cfg") is None:
        raise BertFusedError(f"{path} holds no model of fairseq; {_REMEDY}")
    raise_all(diverged(path, state["model"]))
    return {**state, "args": None}


def without_training_state(state: Dict[str, Any]) -> Dict[str, Any]:
    """Return the checkpoint *state* without what only training needs: optimizer, meters, data position and EMA.

    The history of the optimizer stays, since it has the numbers of updates of this training and of those before it.
    """
    epoch = state["extra_state"]["train_iterator"]["epoch"]
    return {
        **state,
        "cfg": OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True),
        "extra_state": {"train_iterator": {"epoch": epoch}},
        "last_optimizer_state": None,
    }


def model_settings(state: Dict[str, Any]) -> Dict[str, Any]:
    """Return the flags of the model in a *state* of `without_training_state`; the caller may change them."""
    settings = state["cfg"]["model"]
    return vars(settings) if isinstance(settings, Namespace) else settings


@contextmanager
def written_output(path: Path) -> Iterator[Path]:
    """Yield a path for a new file or directory, which replaces the ``--output`` *path* once it is complete.

    Raises:
        BertFusedError: The new file cannot be written; an earlier file at *path* is then unchanged.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise BertFusedError(
            f"--output {path} is a device or a pipe, which cannot be replaced; give the name of a file"
        )
    try:
        with written_whole(path) as new:
            yield new
    except BertFusedError:
        raise
    except (OSError, RuntimeError, SafetensorError) as error:  # torch and safetensors raise these if the disk is full
        reason = " ".join(str(error).split())
        raise BertFusedError(
            f"--output {path} cannot be written, and nothing was changed ({reason}); "
            "give a path in an existing directory that you may write to, on a disk with free space"
        ) from error


def save_checkpoint(state: Dict[str, Any], path: Path) -> None:
    """Write *state* as a checkpoint of fairseq."""
    torch.save(state, path)
