"""Averages checkpoints; the mean often translates better than each of them (Vaswani et al. 2017, section 6.1)."""

import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch import Tensor

from bert_fused_plugin.bert.identity import config_differences
from bert_fused_plugin.bert.record import RECORD_KEY, read_record
from bert_fused_plugin.checkpoints.reading import read_checkpoint, without_training_state
from bert_fused_plugin.errors import BertFusedError, raise_all
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
    """Return a checkpoint whose floating-point tensors are the means of those in *paths*.

    Sums are computed in double precision; means of half-precision tensors are in single precision, as in fairseq's
    own script. Settings, integers and the records of BERT and of the settings come from the first checkpoint. The
    state that only training needs is left out.

    Raises:
        BertFusedError: There are no checkpoints, or one cannot be read, or they are not of the same model.
    """
    if not paths:
        raise BertFusedError("--inputs has no checkpoints to average; give at least one")
    result = read_checkpoint(paths[0])
    first: Dict[str, Tensor] = result["model"]
    sums = {key: value.double() for key, value in first.items() if _is_averaged(key, value)}
    for path in paths[1:]:
        other: Dict[str, Tensor] = read_checkpoint(path)["model"]
        raise_all(_differences(paths[0], first, path, other))
        for key in sums:
            sums[key] += other[key].double()
    result["model"] = _with_means(first, sums, len(paths))
    return without_training_state(result)


def last_checkpoints(
    directory: Path, count: int, *, by_updates: bool = False, upper_bound: Optional[int] = None
) -> List[Path]:
    """Return the last *count* checkpoints in *directory*, the newest first.

    Args:
        directory: the ``--save-dir`` of a training.
        count: number of checkpoints.
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
    numbered = [(int(match[1]), path) for path in directory.iterdir() if (match := re.fullmatch(name, path.name))]
    found = sorted((pair for pair in numbered if upper_bound is None or pair[0] <= upper_bound), reverse=True)
    if len(found) < count:
        kind = "checkpoint_EPOCH_UPDATE.pt" if by_updates else "checkpointEPOCH.pt"
        bound = "" if upper_bound is None else f" up to --checkpoint-upper-bound {upper_bound}"
        raise BertFusedError(
            f"{flag} {count}: {directory} has {len(found)} files {kind}{bound}; ask for fewer, or give other --inputs"
        )
    return [path for _, path in found[:count]]


def _is_averaged(key: str, value: Tensor) -> bool:
    return value.is_floating_point() and key not in (*_RECORDS, _LR_FACTOR, _SCALED)


def _with_means(first: Dict[str, Tensor], sums: Dict[str, Tensor], count: int) -> Dict[str, Tensor]:
    """Return *first* with the means of *sums*; parameters that shared memory in *first* share it again."""
    result: Dict[str, Tensor] = {}
    shared: Dict[Any, Tensor] = {}
    for key, value in first.items():
        if key not in sums:
            result[key] = value
            continue
        dtype = value.dtype if value.dtype in (torch.float32, torch.float64) else torch.float32
        mean = (sums[key] / count).to(dtype)
        twin = shared.setdefault((value.data_ptr(), value.shape, value.stride()), mean)
        result[key] = twin if torch.equal(twin, mean) else mean
    return result


def _differences(path: Path, state: Dict[str, Tensor], other_path: Path, other: Dict[str, Tensor]) -> List[str]:
    """Return a sentence if the models *state* and *other* cannot be averaged."""
    start, remedy = f"{other_path} and {path}", "average checkpoints of one training"
    missing, extra = sorted(state.keys() - other.keys()), sorted(other.keys() - state.keys())
    if missing or extra:
        where, keys = (path, missing) if missing else (other_path, extra)
        return [
            f"{start} are of different models: {len(missing) + len(extra)} parameters are in only one of them, such as "
            f"{keys[0]} in {where}; {remedy}"
        ]
    sizes = [key for key in state if key not in _RECORDS and state[key].shape != other[key].shape]
    if sizes:
        shapes = f"{tuple(other[sizes[0]].shape)} and {tuple(state[sizes[0]].shape)}"
        return [
            f"{start} are of different models: {len(sizes)} sizes differ, such as {sizes[0]} with {shapes}; {remedy}"
        ]
    if _LR_FACTOR in state and not torch.equal(state[_LR_FACTOR].float(), other[_LR_FACTOR].float()):
        factors = f"{float(other[_LR_FACTOR]):g} and {float(state[_LR_FACTOR]):g}"
        return [f"{start} differ in --bert-lr-factor ({factors}), which scales the weights of BERT; {remedy}"]
    if _SCALED in state and not torch.equal(state[_SCALED].round(), other[_SCALED].round()):
        return [f"{start} differ in --bert-finetune-layers, whose weights of BERT are scaled; {remedy}"]
    if _are_different_berts(_record(read_record, other), _record(read_record, state)):
        return [f"{start} were trained with different BERT models; {remedy}"]
    settings, other_settings = _record(read_settings, state), _record(read_settings, other)
    others = other_symbols(other_settings, settings, {})
    if others:
        return [f"{start} were trained with different {' and '.join(others)} dictionaries; {remedy}"]
    return [
        f"{start} are of different models: they were trained {with_or_without(name, value)} and "
        f"{with_or_without(name, first)}; {remedy}"
        for name, value, first in differences(other_settings.get("computed", {}), settings.get("computed", {}))
    ]


def _are_different_berts(record: Dict[str, Any], other: Dict[str, Any]) -> bool:
    """Return whether two records are of different BERTs, wherever these lie."""
    if any(record.get(part) != other.get(part) for part in ("weights_in_layers", "tokenizer")):
        return True
    return bool(record) and bool(config_differences(record["config"], other["config"]))


def _record(read: Callable[[Dict[str, Tensor]], Optional[Dict[str, Any]]], state: Dict[str, Tensor]) -> Dict[str, Any]:
    """Return the record that *read* finds in *state*; an empty one if there is none, or if it is damaged."""
    try:
        return read(state) or {}
    except ValueError:  # a message says so when the model is loaded
        return {}
