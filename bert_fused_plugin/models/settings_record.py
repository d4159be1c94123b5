"""The record of the settings in a checkpoint, by which other settings than those of the training are noticed.

fairseq takes the flags of a model from the command line when a training resumes.  Most wrong flags change the shape of
a parameter, which fairseq notices.  The settings that are recorded here would change the model silently.
"""

import logging
from typing import Any, Dict, List, Mapping, Optional, Tuple

from torch import Tensor

from bert_fused_plugin.checkpoints.json_record import JsonRecord, read_json

logger = logging.getLogger(__name__)

SETTINGS_RECORD = "settings_record.text"  # its name in a checkpoint

Settings = Dict[str, Any]
Difference = Tuple[str, Any, Any]

# fairseq's EMA in single precision requires that the text keeps its length when a value changes
_BLOCK = 2048
_KINDS = {"computed": dict, "noted": dict}
_UNCHECKED = (
    "or load the checkpoint nevertheless with --bert-unchecked "
    "(at generation --model-overrides \"{'bert_unchecked': True}\")"
)


class SettingsRecord(JsonRecord):
    """The settings of a model, under the names of their flags, which are saved with the model.

    A setting is recorded only where it has an effect, and with the value that has the effect, which may be a default
    that follows from other flags.

    Args:
        computed: the settings that change what the model computes.
        noted: the settings that change only how the model is trained, or how much BERT reads at most.
    """

    def __init__(self, computed: Settings, noted: Settings) -> None:
        super().__init__({"computed": _plain(computed), "noted": _plain(noted)}, _BLOCK)


def settings_incompatibilities(model: Any, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence for each setting of *model* with which the checkpoint *state_dict* would be another model.

    A setting that is only noted gives a warning, and so do all settings under ``--bert-unchecked``.
    """
    current = model.settings_record.record
    try:
        saved = read_settings(state_dict)
    except ValueError:
        logger.warning("the checkpoint's record of its settings is damaged, so the settings are not compared")
        return []
    if saved is None:
        return []
    noted = [_describe(difference) for difference in differences(saved["noted"], current["noted"])]
    if noted:
        logger.warning("; ".join(noted))
    changed = differences(saved["computed"], current["computed"])
    if changed and model.cfg.bert_unchecked:
        logger.warning(f"--bert-unchecked: {'; '.join(map(_describe, changed))}")
        return []
    return [f"{_describe(difference)}; {_remedy(difference)}, {_UNCHECKED}" for difference in changed]


def read_settings(state_dict: Mapping[str, Tensor]) -> Optional[Dict[str, Settings]]:
    """Return the record in a model's *state_dict*; None if there is none, as in checkpoints of older versions.

    Raises:
        ValueError: The record is damaged.
    """
    return read_json(state_dict, SETTINGS_RECORD, _KINDS)


def differences(then: Settings, now: Settings) -> List[Difference]:
    """Return name and both values of each setting that is in *then* and in *now* and differs.

    A setting that is in only one of them has no effect in the other, or a version did not know it.
    """
    return [(name, value, now[name]) for name, value in then.items() if name in now and value != now[name]]


def with_or_without(name: str, value: Any) -> str:
    """Return "with --flag value", or "without --flag" for a switch that is off and for a flag that was not given."""
    flag = _flag(name)
    if value is None or value is False:
        return f"without {flag}"
    return f"with {flag}" if value is True else f"with {flag} {value}"


def _describe(difference: Difference) -> str:
    name, then, now = difference
    return (
        f"the checkpoint was trained {with_or_without(name, then)}, and this model is built "
        f"{with_or_without(name, now)}"
    )


def _remedy(difference: Difference) -> str:
    name, then, _ = difference
    if then is None or then is False:
        return f"leave {_flag(name)} out"
    return f"give {_flag(name)}" if then is True else f"give {_flag(name)} {then}"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _plain(settings: Settings) -> Settings:
    """Return *settings* with text in place of the choices of fairseq's configs."""
    return {
        name: value if value is None or isinstance(value, (bool, int, float)) else str(value)
        for name, value in settings.items()
    }
