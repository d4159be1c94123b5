"""The error for mistakes of users, which is shown as a message without a stack trace."""

import sys
from types import TracebackType
from typing import Optional, Sequence, Type

_REPLACED_BY_FAIRSEQ = "Cannot load model parameters from checkpoint "


class BertFusedError(ValueError):
    """A setting or a file cannot be used; the message names it, the rule and the remedy.

    Args:
        errors: complete sentences, one for each problem.
    """

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
    """End the fairseq commands with the message of a `BertFusedError` instead of a stack trace."""
    shown_by_host = sys.excepthook

    def show(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        ours = _find(error)
        if ours is None:
            shown_by_host(kind, error, trace)
            return
        sys.stdout.flush()
        for message in ours.errors:
            print(f"bert_fused_plugin: error: {message}", file=sys.stderr)

    sys.excepthook = show


def _find(error: Optional[BaseException]) -> Optional[BertFusedError]:
    """Return the `BertFusedError` that *error* is, or that caused it; None for any other error.

    An error that is raised while a `BertFusedError` is handled is not caused by it, and is shown with its trace.  The
    one exception is fairseq's trainer, which replaces every error of a checkpoint by a less precise one.
    """
    while error is not None and not isinstance(error, BertFusedError):
        replaced = error.__context__ if str(error).startswith(_REPLACED_BY_FAIRSEQ) else None
        error = error.__cause__ or replaced
    return error
