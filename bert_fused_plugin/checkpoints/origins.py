"""Where a training began: from which checkpoint, and after how many updates of it."""

from typing import Any, List, Mapping, NamedTuple, Optional

from bert_fused_plugin.checkpoints.reading import saved_flags
from bert_fused_plugin.checkpoints.record import recorded_origins

_OWN_RESTORE_FILE = "checkpoint_last.pt"  # fairseq's default, which lets a training resume


class Origin(NamedTuple):
    """Path and number of updates, as far as they are known, of a checkpoint that a training began with."""

    path: Optional[str]
    updates: Optional[int]


def origins(checkpoint: Mapping[str, Any]) -> List[Origin]:
    """Return the checkpoint that the training of *checkpoint* began from, then the one that that one began from, ...

    ``--bert-warm-start`` is in the record beside the parameters.  fairseq knows of ``--finetune-from-model``, and of
    ``--restore-file`` with ``--reset-optimizer``: their flags are in the settings, and the checkpoint's history of
    optimizers has one number of updates for each launch, also for the launches of the checkpoint that it began from.
    """
    warm_start = [Origin(*recorded) for recorded in recorded_origins(checkpoint["model"])]
    return [*_of_flags(checkpoint), *warm_start]


def _of_flags(checkpoint: Mapping[str, Any]) -> List[Origin]:
    flags = saved_flags(checkpoint, "checkpoint")
    launches = [int(entry.get("num_updates", 0)) for entry in checkpoint["optimizer_history"]]
    begun = [i for i in range(1, len(launches)) if launches[i] < launches[i - 1]]  # the count began at 0 again
    path, last = flags.get("finetune_from_model"), len(launches) - 1
    if path is None and flags.get("reset_optimizer") and flags.get("restore_file") not in (None, _OWN_RESTORE_FILE):
        path = flags["restore_file"]  # which every launch of this training begins from
        begun = sorted({*begun, last})
    elif path is not None and last == 1:
        begun = [1]
    if path is not None and (not begun or begun[-1] < 1):
        return [Origin(path, None)]  # the training was resumed, and has more updates than the checkpoint
    found = [Origin(None, launches[i - 1]) for i in reversed(begun)]
    return found if path is None else [found[0]._replace(path=path), *found[1:]]
