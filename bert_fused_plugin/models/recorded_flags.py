"""The record of the settings in a checkpoint, by which other settings than those of the training are noticed.

fairseq takes the flags of a model from the command line when a training resumes.  Most wrong flags change the shape of
a parameter, which fairseq notices.  The settings that are recorded here would change the model silently, and so would a
dictionary of the same size.
"""

import hashlib
import logging
from typing import Any, Dict, List, Mapping, Tuple

from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from bert_fused_plugin.errors import flag_name
from bert_fused_plugin.flags import Record, recorded
from bert_fused_plugin.json_record import JsonRecord, read_json

logger = logging.getLogger(__name__)

SETTINGS_RECORD = "settings_record.text"  # its name in a checkpoint

Settings = Dict[str, Any]
Difference = Tuple[str, Any, Any]  # the name of a setting, and both of its values

_SIDES = {"encoder": "source", "decoder": "target"}


def flag_record(cfg: Any, task: Any) -> JsonRecord:
    """Return the record of the flags *cfg*, which keep all rules, and of the dictionaries and languages of *task*.

    A flag is recorded only where it has an effect, and with the value that has the effect, which may be a default that
    follows from other flags.  The languages are noted because nothing else tells a model for the one direction from one
    for the other, where both share a dictionary.  A multilingual task has none.
    """
    noted = recorded(cfg, Record.NOTED)
    if isinstance(task, TranslationTask):
        noted.update(source_lang=task.cfg.source_lang, target_lang=task.cfg.target_lang)
    symbols = dict(zip(_SIDES, map(fingerprint, (task.source_dictionary, task.target_dictionary))))
    return JsonRecord({"computed": recorded(cfg, Record.COMPUTED), "noted": noted, "symbols": symbols})


def flag_incompatibilities(model: Any, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence for each setting of *model* with which the checkpoint *state_dict* would be another model.

    A setting that is only noted gives a warning.
    """
    current = model.settings_record.record
    saved = read_json(state_dict, SETTINGS_RECORD)
    if saved is None:
        return []
    noted, changed = (
        [reason_and_remedy("the checkpoint", found) for found in differences(saved[kind], current[kind])]
        for kind in ("noted", "computed")
    )
    if noted:
        logger.warning("; ".join(reason for reason, _ in noted))
    return ["; ".join(described_one) for described_one in changed] + [
        f"the checkpoint was trained with another {_SIDES[name]} dictionary: that of the data has other symbols, or "
        "the same ones in another order; use the dict.*.txt that the model was trained with (fairseq-preprocess "
        "--srcdict, --tgtdict)"
        for name, _, _ in differences(saved.get("symbols", {}), current["symbols"])
    ]


def differences(then: Settings, now: Settings) -> List[Difference]:
    """Return name and both values of each setting that is in *then* and in *now* and differs.

    A setting that is in only one of them has no effect in the other, or a version did not know it.
    """
    return [(name, value, now[name]) for name, value in then.items() if name in now and value != now[name]]


def with_or_without(name: str, value: Any) -> str:
    """Return "with --flag value", or "without --flag" for a switch that is off and for a flag that was not given."""
    flag = flag_name(name)
    if value is None or value is False:
        return f"without {flag}"
    return f"with {flag}" if value is True else f"with {flag} {value}"


def reason_and_remedy(checkpoint: str, difference: Difference) -> Tuple[str, str]:
    """Return how the training of the *checkpoint* differs from the model at hand, and the remedy."""
    name, then, now = difference
    word, given = with_or_without(name, then).split(" ", 1)
    reason = f"{checkpoint} was trained {word} {given}, and this model is built {with_or_without(name, now)}"
    return reason, f"leave {given} out" if word == "without" else f"give {given}"


def fingerprint(dictionary: Dictionary) -> Settings:
    """Return what tells a *dictionary* from others."""
    text = "\n".join(dictionary.symbols).encode("utf-8", "surrogatepass")
    return {"count": len(dictionary), "hash": hashlib.sha256(text).hexdigest()[:16]}
