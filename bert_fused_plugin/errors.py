"""Errors for people: what was wrong, the rule, the remedy; all of them together, without a stack trace."""

import sys
from types import TracebackType
from typing import Optional, Sequence, Type


class BertFusedError(ValueError):
    """A setting or a file that cannot be used; the message names it, the rule and the remedy.

    Args:
        errors: one complete sentence for each problem.
    """

    def __init__(self, *errors: str) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def raise_all(errors: Sequence[str]) -> None:
    """Raise one `BertFusedError` that lists *errors*; do nothing where there are none."""
    if errors:
        raise BertFusedError(*errors)


def install_excepthook() -> None:
    """Let the fairseq commands end with the message of a `BertFusedError` instead of a stack trace."""
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
    """Return the `BertFusedError` behind *error*, which fairseq may have replaced by a vaguer one."""
    while error is not None and not isinstance(error, BertFusedError):
        error = error.__cause__ or error.__context__
    return error
