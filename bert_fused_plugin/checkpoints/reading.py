"""Opens files that torch or fairseq wrote, and says in one way why a file cannot be used."""

from pathlib import Path
from typing import Any, Callable, Dict, Union

from bert_fused_plugin.errors import BertFusedError
from fairseq_compat.checkpoint import CheckpointError, load

Read = Callable[[str], Any]

_MODEL = "model of fairseq"


def read_torch_file(path: str) -> Any:
    """Return the content of the file *path* on the CPU; nothing that the file holds is executed."""
    with open(path, "rb") as file:
        return load(file, map_location="cpu")


def open_torch_file(
    path: Union[str, Path], remedy: str, *, content: str, flag: str = "", read: Read = read_torch_file
) -> Any:
    """Return what *read* makes of a file.

    Args:
        path: the file.
        remedy: advice that ends the message of an error.
        content: kind of thing that the file should hold, for the message of an error.
        flag: flag that the file was given with, for the message of an error.
        read: function that reads the file.

    Raises:
        BertFusedError: The file cannot be read, or it is damaged or not safe to read.
    """
    place = f"{flag} {path}" if flag else str(path)
    try:
        return read(str(path))
    except OSError as error:
        raise BertFusedError(f"{place} cannot be read: {error.strerror or error}; {remedy}") from error
    except CheckpointError as error:  # its message names the file and a remedy
        raise BertFusedError(f"{flag}: {error}" if flag else str(error)) from error
    except Exception as error:  # a file of another kind can raise any exception
        reason = f"{type(error).__name__}: {error}"
        raise BertFusedError(f"{place} holds no {content} ({reason}); {remedy}") from error


def open_checkpoint(
    path: Union[str, Path], remedy: str, *, flag: str = "", read: Read = read_torch_file
) -> Dict[str, Any]:
    """Return the checkpoint in a file; its ``model`` is a dictionary.

    Args:
        path: the file.
        remedy: advice that ends the message of an error.
        flag: flag that the file was given with, for the message of an error.
        read: function that reads the file.

    Raises:
        BertFusedError: The file cannot be read, or it is damaged, not safe to read, or no checkpoint of fairseq.
    """
    checkpoint = open_torch_file(path, remedy, content=_MODEL, flag=flag, read=read)
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        place = f"{flag} {path}" if flag else str(path)
        raise BertFusedError(f"{place} holds no {_MODEL}; {remedy}")
    return checkpoint
