"""Averages checkpoints; the mean often translates better than each of them (Vaswani et al. 2017, section 6.1)."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import torch
from fairseq.checkpoint_utils import checkpoint_paths
from torch import Tensor

from bert_fused_plugin.bert.identity import config_differences
from bert_fused_plugin.bert.record import RECORD_KEY, read_record
from bert_fused_plugin.checkpoints.reading import read_checkpoint, without_training_state
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.recorded_flags import (
    SETTINGS_RECORD,
    differences,
    other_symbols,
    read_settings,
    with_or_without,
)

_RECORDS = (RECORD_KEY, SETTINGS_RECORD)
_LR_FACTOR = "encoder.bert.lr_factor"  # the scale of a fine-tuned BERT's weights
_SCALED = "encoder.bert.scaled"  # those of them that it scales


def average_checkpoints(paths: Sequence[Path]) -> Dict[str, Any]:
    """Return a checkpoint whose floating-point tensors are the means of those in *paths*, at least one.

    Sums are computed in double precision; means of half-precision tensors are in single precision, as in fairseq's
    own script. Settings, integers and the records of BERT and of the settings come from the first checkpoint. The
    state that only training needs is left out.

    Raises:
        BertFusedError: One cannot be read, or they are not of the same model.
    """
    result = read_checkpoint(paths[0])
    first: Dict[str, Tensor] = result["model"]
    fixed = (*_RECORDS, _LR_FACTOR, _SCALED)
    sums = {key: value.double() for key, value in first.items() if value.is_floating_point() and key not in fixed}
    for path in paths[1:]:
        other: Dict[str, Tensor] = read_checkpoint(path)["model"]
        difference = next(_differences(first, other), None)
        if difference is not None:
            raise BertFusedError(f"{path} and {paths[0]} {difference}; average checkpoints of one training")
        for key in sums:
            sums[key] += other[key].double()
    means: Dict[str, Tensor] = {}
    shared: Dict[Any, Tensor] = {}  # what shared memory in the first checkpoint shares it again
    for key, total in sums.items():
        value = first[key]
        dtype = value.dtype if value.dtype in (torch.float32, torch.float64) else torch.float32
        mean = (total / len(paths)).to(dtype)
        twin = shared.setdefault((value.data_ptr(), value.shape, value.stride()), mean)
        means[key] = twin if torch.equal(twin, mean) else mean
    return without_training_state({**result, "model": {**first, **means}})


def last_checkpoints(
    directory: Path, count: int, *, by_updates: bool = False, upper_bound: Optional[int] = None
) -> List[Path]:
    """Return the last *count* checkpoints in the ``--save-dir`` *directory*, the newest first.

    Args:
        by_updates: whether to take the checkpoints of ``--save-interval-updates`` and not those of epochs.
        upper_bound: number of the last epoch or update that may be taken.

    Raises:
        BertFusedError: There are fewer checkpoints.
    """
    flag, name = (
        ("--num-update-checkpoints", r"checkpoint_\d+_(\d+)\.pt")
        if by_updates
        else ("--num-epoch-checkpoints", r"checkpoint(\d+)\.pt")
    )
    if count < 1:
        raise BertFusedError(f"{flag} must be at least 1, got {count}; give the number of checkpoints to average")
    if not directory.is_dir():
        raise BertFusedError(f"--inputs {directory} must be one directory with {flag}; give the --save-dir of training")
    numbered = checkpoint_paths(str(directory), name, keep_match=True)
    found = [Path(path) for path, number in numbered if upper_bound is None or number <= upper_bound]
    if len(found) < count:
        kind = "checkpoint_EPOCH_UPDATE.pt" if by_updates else "checkpointEPOCH.pt"
        bound = "" if upper_bound is None else f" up to --checkpoint-upper-bound {upper_bound}"
        raise BertFusedError(
            f"{flag} {count}: {directory} has {len(found)} files {kind}{bound}; ask for fewer, or give other --inputs"
        )
    return found[:count]


def _differences(first: Dict[str, Tensor], other: Dict[str, Tensor]) -> Iterator[str]:
    """Yield the reasons why the models *first* and *other* cannot be averaged."""
    sizes = [{key: key in _RECORDS or tuple(state[key].shape) for key in state} for state in (other, first)]
    keys = sorted({key for key, _ in sizes[0].items() ^ sizes[1].items()})
    if keys:
        shapes = " and ".join(str(size.get(keys[0], "none")) for size in sizes)
        yield f"are of different models: {len(keys)} parameters differ in size, such as {keys[0]} ({shapes})"
    if _LR_FACTOR in first and not torch.equal(first[_LR_FACTOR].float(), other[_LR_FACTOR].float()):
        factors = f"{float(other[_LR_FACTOR]):g} and {float(first[_LR_FACTOR]):g}"
        yield f"differ in --bert-lr-factor ({factors}), which scales the weights of BERT"
    if _SCALED in first and not torch.equal(first[_SCALED].round(), other[_SCALED].round()):
        yield "differ in --bert-finetune-layers, whose weights of BERT are scaled"
    berts = [_record(read_record, state) for state in (other, first)]  # of the same BERT, wherever it lies
    parts = [[bert.get(part) for part in ("weights_in_layers", "tokenizer")] for bert in berts]
    if parts[0] != parts[1] or config_differences(*(bert.get("config", {}) for bert in berts)):
        yield "were trained with different BERT models"
    then, now = (_record(read_settings, state) for state in (other, first))
    others = other_symbols(then, now, {})
    if others:
        yield f"were trained with different {' and '.join(others)} dictionaries"
    for name, value, changed in differences(then.get("computed", {}), now.get("computed", {})):
        trained = f"{with_or_without(name, value)} and {with_or_without(name, changed)}"
        yield f"are of different models: they were trained {trained}"


def _record(read: Callable[..., Optional[Dict[str, Any]]], state: Dict[str, Tensor]) -> Dict[str, Any]:
    """Return the record that *read* finds in *state*; an empty one if there is none, or if it is damaged."""
    with suppress(ValueError):  # a message says so when the model is loaded
        return read(state) or {}
    return {}
