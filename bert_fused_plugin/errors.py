"""The error for mistakes of users, which is shown as a message without a stack trace."""

import sys
from types import TracebackType
from typing import Optional, Sequence, Type


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
    shown_by_host = sys.excepthook

    def show(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        ours: Optional[BaseException] = error
        while ours is not None and not isinstance(ours, BertFusedError):
            # fairseq's trainer replaces every error of a checkpoint by a less precise one, without naming the cause
            is_replaced = str(ours).startswith("Cannot load model parameters from checkpoint ")
            ours = ours.__cause__ or (ours.__context__ if is_replaced else None)
        if ours is None:
            shown_by_host(kind, error, trace)
            return
        sys.stdout.flush()
        for message in ours.errors:
            print(f"bert_fused_plugin: error: {message}", file=sys.stderr)

    sys.excepthook = show
