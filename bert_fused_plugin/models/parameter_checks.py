"""Says how the parameters of a checkpoint differ from those of the model that cannot load it."""

from contextlib import contextmanager
from typing import Any, Collection, Dict, Iterator, Mapping

from torch import Tensor

from bert_fused_plugin.checkpoints.reading import diverged
from bert_fused_plugin.errors import BertFusedError, raise_all

_MAY_LACK = "_record.text"  # records, which checkpoints of earlier versions lack


def without_records(state_dict: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """Return *state_dict* without what a model says about itself, which takes time to read."""
    return {name: value for name, value in state_dict.items() if not name.endswith(_MAY_LACK)}


@contextmanager
def explained(model: Any, state_dict: Mapping[str, Tensor]) -> Iterator[None]:
    """Let *model* load *state_dict*; torch's list of all parameters that do not fit becomes one sentence.

    Raises:
        BertFusedError: the checkpoint is that of another architecture, or of a model of other sizes, or of a training
            that has diverged.
    """
    raise_all(diverged("the checkpoint", state_dict))
    try:
        yield
    except RuntimeError as error:
        raise BertFusedError(_sentence(model, state_dict, error)) from error


def _sentence(model: Any, saved: Mapping[str, Tensor], error: RuntimeError) -> str:
    expected: Mapping[str, Tensor] = model.state_dict()
    others = [name for name in expected if name in saved and saved[name].shape != expected[name].shape]
    parts = [
        _count([name for name in expected if name not in saved and not name.endswith(_MAY_LACK)], "are missing"),
        _count([name for name in saved if name not in expected], "are unknown"),
        _count([f"{name} {_shape(saved[name])}, not {_shape(expected[name])}" for name in others], "differ in size"),
    ]
    if not any(parts):
        return f"the checkpoint cannot be loaded: {' '.join(str(error).split())}"
    remedy = "give --arch and sizes as at that training, or begin a new one with a new --save-dir"
    if "bert_warm_start" in vars(model.cfg):
        remedy += " (--bert-warm-start takes what fits from a transformer)"
    return f"the checkpoint has other parameters than this model: {'; '.join(filter(None, parts))}; {remedy}"


def _count(names: Collection[str], what: str) -> str:
    return f"{len(names)} {what}, such as {next(iter(names))}" if names else ""


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "1"
