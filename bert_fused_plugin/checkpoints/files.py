"""Reads checkpoints, takes out what only training needs, and writes files and directories whole or not at all."""

import os
import tempfile
from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator

import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from omegaconf import OmegaConf
from safetensors import SafetensorError

from bert_fused_plugin.errors import BertFusedError
from fairseq_compat.checkpoint import CheckpointError

_REMEDY = "give a checkpoint that fairseq-train wrote, such as its checkpoint_best.pt"


def read_checkpoint(path: Path, **overrides: Any) -> Dict[str, Any]:
    """Return the checkpoint in *path*, whatever fairseq wrote it, with its settings as ``cfg``.

    Args:
        path: the file.
        overrides: settings to be replaced, as by ``--model-overrides``.

    Raises:
        BertFusedError: it cannot be read, is damaged, not safe to read, or no checkpoint of fairseq.
    """
    try:
        state = load_checkpoint_to_cpu(str(path), arg_overrides=overrides)
    except OSError as error:
        raise BertFusedError(f"{path} cannot be read ({error.strerror}); {_REMEDY}") from error
    except CheckpointError as error:  # which names file and remedy
        raise BertFusedError(str(error)) from error
    except Exception as error:  # another kind of file can raise anything
        raise BertFusedError(
            f"{path} holds no model of fairseq ({type(error).__name__}: {error}); {_REMEDY}"
        ) from error
    if not isinstance(state.get("model"), dict) or state.get("cfg") is None:
        raise BertFusedError(f"{path} holds no model of fairseq; {_REMEDY}")
    return {**state, "args": None}


def without_training_state(state: Dict[str, Any]) -> Dict[str, Any]:
    """Return the checkpoint *state* without optimizer, meters, data position and EMA: what translating needs."""
    epoch = state["extra_state"]["train_iterator"]["epoch"]
    return {
        **state,
        "cfg": OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True),
        "optimizer_history": state["optimizer_history"][-1:],  # the number of updates
        "extra_state": {"train_iterator": {"epoch": epoch}},
        "last_optimizer_state": None,
    }


def model_settings(state: Dict[str, Any]) -> Dict[str, Any]:
    """Return the flags of the model in what `without_training_state` returned, to be read and changed."""
    settings = state["cfg"]["model"]
    return vars(settings) if isinstance(settings, Namespace) else settings


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give the place of a new file or directory, which takes that of *path* once it is complete.

    A symbolic link stays one: what it leads to is replaced.

    Raises:
        BertFusedError: it cannot be written; what there was is then as before.
    """
    place = path.resolve()
    if place.exists() and not (place.is_file() or place.is_dir()):
        raise BertFusedError(f"--output {path} is a device or a pipe, nothing to be replaced; give a file's name")
    try:
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as folder:
            new = Path(folder) / place.name
            yield new
            os.replace(new, place)
    except BertFusedError:
        raise
    except (OSError, RuntimeError, SafetensorError) as error:  # torch's and safetensors' for a full disk
        reason = " ".join(str(error).split())
        raise BertFusedError(
            f"--output {path} cannot be written, and nothing was ({reason}); "
            "give a place in an existing directory that you may write to, on a disk with room"
        ) from error


def save_checkpoint(state: Dict[str, Any], path: Path) -> None:
    """Write *state* as a checkpoint of fairseq."""
    torch.save(state, path)
