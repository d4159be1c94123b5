"""The record of the settings in a checkpoint, by which other settings than those of the training are noticed.

fairseq takes the flags of a model from the command line when a training resumes.  Most wrong flags change the shape of
a parameter, which fairseq notices.  The settings that are recorded here would change the model silently, and so would a
dictionary of the same size.
"""

import hashlib
import logging
from typing import Any, Dict, List, Mapping, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from bert_fused_plugin.errors import flag_name
from bert_fused_plugin.flags import Record, recorded
from bert_fused_plugin.json_record import JsonRecord, read_json

logger = logging.getLogger(__name__)

SETTINGS_RECORD = "settings_record.text"  # its name in a checkpoint

Settings = Dict[str, Any]
Difference = Tuple[str, Any, Any]

_SIDES = {"encoder": "source", "decoder": "target"}
_OTHER_SYMBOLS = (
    "the checkpoint was trained with another {side} dictionary: that of the data has other symbols, or the same ones "
    "in another order"
)
_DICTIONARIES = "use the dict.*.txt that the model was trained with (fairseq-preprocess --srcdict, --tgtdict)"
_KINDS = {"computed": dict, "noted": dict}
_UNCHECKED = (
    "or load the checkpoint nevertheless with --bert-unchecked "
    "(at generation --model-overrides \"{'bert_unchecked': True}\")"
)


class FlagRecord(JsonRecord):
    """The flags of a model that a checkpoint records, under the names of their settings.

    A flag is recorded only where it has an effect, and with the value that has the effect, which may be a default that
    follows from other flags.

    Args:
        cfg: the flags, which keep all rules.
        task: the task, whose dictionaries are recorded, and its languages noted.
    """

    def __init__(self, cfg: Any, task: Any) -> None:
        noted = {**recorded(cfg, Record.NOTED), **_languages(task)}
        symbols = dict(zip(_SIDES, map(_fingerprint, (task.source_dictionary, task.target_dictionary))))
        computed = recorded(cfg, Record.COMPUTED)
        super().__init__({"computed": _plain(computed), "noted": _plain(noted), "symbols": symbols})


def flag_incompatibilities(model: Any, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence for each setting of *model* with which the checkpoint *state_dict* would be another model.

    A setting that is only noted gives a warning, and so do all settings under ``--bert-unchecked``.
    """
    current = model.settings_record.record
    try:
        saved = read_settings(state_dict)
    except ValueError:
        logger.warning("the checkpoint's record of its settings is damaged, so the settings are not compared")
        return []
    if saved is None and _lacks_parameters(model, state_dict):  # loading it says what it is
        return []
    saved = saved or {"computed": {}, "noted": {}}
    noted = [_describe(difference) for difference in differences(saved["noted"], current["noted"])]
    if noted:
        logger.warning("; ".join(noted))
    changed = differences(saved["computed"], current["computed"])
    reasons = [(_describe(difference), _remedy(difference)) for difference in changed]
    reasons += [(_OTHER_SYMBOLS.format(side=side), _DICTIONARIES) for side in other_symbols(saved, current, state_dict)]
    if reasons and model.cfg.bert_unchecked:
        logger.warning(f"--bert-unchecked: {'; '.join(reason for reason, _ in reasons)}")
        return []
    return [f"{reason}; {remedy}, {_UNCHECKED}" for reason, remedy in reasons]


def _lacks_parameters(model: Any, state_dict: Mapping[str, Tensor]) -> bool:
    """Return whether *model* has parameters that *state_dict* lacks; records are no parameters."""
    return any(not name.endswith(".text") for name in model.state_dict().keys() - state_dict.keys())


def read_settings(state_dict: Mapping[str, Tensor]) -> Optional[Dict[str, Settings]]:
    """Return the record in a model's *state_dict*; None if there is none, as in a checkpoint of another model.

    Raises:
        ValueError: The record is damaged.
    """
    return read_json(state_dict, SETTINGS_RECORD, _KINDS)


def differences(then: Settings, now: Settings) -> List[Difference]:
    """Return name and both values of each setting that is in *then* and in *now* and differs.

    A setting that is in only one of them has no effect in the other, or a version did not know it.
    """
    return [(name, value, now[name]) for name, value in then.items() if name in now and value != now[name]]


def other_symbols(saved: Dict[str, Any], current: Dict[str, Any], state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return the sides whose dictionary has other symbols than the *saved* record says, or has them in another order.

    A dictionary of another size is noticed, and named, by the embeddings in *state_dict*.
    """
    then, now = saved.get("symbols", {}), current.get("symbols", {})
    return [
        _SIDES[side]
        for side in _SIDES
        if side in then
        and side in now
        and then[side] != now[side]
        and (then[side]["count"] == now[side]["count"] or f"{side}.embed_tokens.weight" not in state_dict)
    ]


def _languages(task: Any) -> Settings:
    """Return the languages of a *task* that translates from one language to another; none of a multilingual one.

    Where both share a dictionary, nothing else tells a model for the one direction from one for the other.
    """
    if not isinstance(task, TranslationTask):
        return {}
    return {"source_lang": task.cfg.source_lang, "target_lang": task.cfg.target_lang}


def _fingerprint(dictionary: Dictionary) -> Settings:
    text = "\n".join(dictionary.symbols).encode("utf-8", "surrogatepass")
    return {"count": len(dictionary), "hash": hashlib.sha256(text).hexdigest()[:16]}


def with_or_without(name: str, value: Any) -> str:
    """Return "with --flag value", or "without --flag" for a switch that is off and for a flag that was not given."""
    flag = flag_name(name)
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
        return f"leave {flag_name(name)} out"
    return f"give {flag_name(name)}" if then is True else f"give {flag_name(name)} {then}"


def _plain(settings: Settings) -> Settings:
    """Return *settings* with text in place of the choices of fairseq's configs."""
    return {
        name: value if value is None or isinstance(value, (bool, int, float)) else str(value)
        for name, value in settings.items()
    }
