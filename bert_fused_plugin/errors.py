"""The error for mistakes of users, which is shown as a message without a stack trace."""

import sys
from types import TracebackType
from typing import Optional, Sequence, Type

from torch.multiprocessing.spawn import ProcessRaisedException

_REPLACED = "Cannot load model parameters from checkpoint "  # fairseq's trainer says so of every error of a checkpoint


class BertFusedError(ValueError):
    """A setting or a file cannot be used; each of the *errors*, sentences, names it, the rule and the remedy."""

    def __init__(self, *errors: str) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def raise_all(errors: Sequence[str]) -> None:
    """Raise one `BertFusedError` that lists all *errors*; do nothing if there are none."""
    if errors:
        raise BertFusedError(*errors)


def flag_name(setting: str) -> str:
    """Return the flag of a *setting*: ``--bert-model`` of ``bert_model``."""
    return "--" + setting.replace("_", "-")


def install_excepthook() -> None:
    """End the fairseq commands with the message of a `BertFusedError`, or of one that is the cause, and no trace."""
    usual = sys.excepthook

    def show(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        ours: Optional[BaseException] = error
        while ours is not None and not isinstance(ours, BertFusedError):
            ours = ours.__cause__ or (ours.__context__ if str(ours).startswith(_REPLACED) else None)
        errors = _said_on_a_gpu(error) if ours is None else ours.errors
        if not errors:
            usual(kind, error, trace)
            return
        sys.stdout.flush()
        for message in errors:
            print(f"bert_fused_plugin: error: {message}", file=sys.stderr)

    sys.excepthook = show


def _said_on_a_gpu(error: BaseException) -> Sequence[str]:
    """Return what a `BertFusedError` said in a process that torch started for a GPU; *error* has only its trace."""
    if not isinstance(error, ProcessRaisedException):
        return ()
    _, _, rest = str(error).rpartition(f"{BertFusedError.__name__}: ")
    said, _, later = rest.partition("\n\n")  # before the trace of an error that it caused
    is_shown = rest != str(error) and (not later or "the direct cause of" in later or _REPLACED in later)
    return said.splitlines() if is_shown else ()
