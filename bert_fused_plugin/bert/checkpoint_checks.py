"""Checks whether a checkpoint fits a model: the dictionaries, the BERT, and whether BERT was fine-tuned."""

import logging
from typing import Any, Dict, List

from torch import Tensor

from bert_fused_plugin.bert.identity import config_differences
from bert_fused_plugin.bert.record import read_record

logger = logging.getLogger(__name__)

_MOST_KEYS = 5  # settings of a configuration that a message names

# parameters that are applied to BERT's states, and so have BERT's width
_AS_WIDE_AS_BERT = ("bert_attn.k_proj.weight", "bert_attention.key_proj.weight", "encoder.bert_proj.weight")


def incompatibilities(model: Any, state_dict: Dict[str, Tensor]) -> List[str]:
    """Return a sentence for each reason why *model* cannot load the checkpoint *state_dict*."""
    expected: Dict[str, Tensor] = model.state_dict()
    errors = []
    for side, what in (("encoder", "source"), ("decoder", "target")):
        key = f"{side}.embed_tokens.weight"
        if key in state_dict and key in expected and len(state_dict[key]) != len(expected[key]):
            errors.append(
                f"the checkpoint has {len(state_dict[key])} {what} symbols, and the {what} dictionary of the data has "
                f"{len(expected[key])}; use the dict.*.txt that the model was trained with "
                "(fairseq-preprocess --srcdict, --tgtdict)"
            )
    widths = [key for key in expected if key.endswith(_AS_WIDE_AS_BERT) and key in state_dict]
    for key in widths[:1]:
        if state_dict[key].size(1) != expected[key].size(1):
            errors.append(
                f"the checkpoint was trained with a BERT of width {state_dict[key].size(1)}, and --bert-model "
                f"{model.cfg.bert_model} has width {expected[key].size(1)}; name the BERT that it was trained with "
                "(--model-overrides \"{'bert_model': 'NAME_OR_DIR'}\" at generation)"
            )
    return (
        errors or _bert_incompatibilities(model, state_dict, expected) or _record_incompatibilities(model, state_dict)
    )


def _bert_incompatibilities(model: Any, state_dict: Dict[str, Tensor], expected: Dict[str, Tensor]) -> List[str]:
    """Compare which weights of a fine-tuned BERT the checkpoint and the model have."""
    prefix = "encoder.bert.model."
    saved_keys, expected_keys = ({key for key in state if key.startswith(prefix)} for state in (state_dict, expected))
    if bool(saved_keys) != bool(expected_keys):
        then, now = ("with", "without") if saved_keys else ("without", "with")
        return [
            f"the checkpoint was trained {then} --bert-finetune, and this model is built {now} it; "
            f"{'add' if saved_keys else 'leave out'} --bert-finetune, or start a new training with --bert-warm-start"
        ]
    if saved_keys != expected_keys or any(state_dict[key].shape != expected[key].shape for key in saved_keys):
        return [
            f"the checkpoint holds another BERT than --bert-model {model.cfg.bert_model}; "
            "name the BERT that it was fine-tuned from"
        ]
    return []


def _record_incompatibilities(model: Any, state_dict: Dict[str, Tensor]) -> List[str]:
    """Compare the records of BERT; a smaller difference than another BERT only gives a warning."""
    if model.encoder.bert_record is None:
        return []
    current = model.encoder.bert_record.record
    unchecked = "--bert-unchecked (at generation --model-overrides \"{'bert_unchecked': True}\")"
    try:
        saved = read_record(state_dict) or current
    except ValueError:
        saved = current
        errors = [f"the checkpoint's record of its BERT is damaged; load it nevertheless with {unchecked}"]
    else:
        differences = _differences(model, saved, current)
        errors = [f"{error}, or load the checkpoint nevertheless with {unchecked}" for error in differences]
    forgotten = [flag for flag in saved["given"] if flag not in current["given"]]
    if forgotten:
        logger.warning(
            f"the model was trained with {' and '.join(forgotten)}, which is not given now, so BERT reads other input"
        )
    if errors and model.cfg.bert_unchecked:
        logger.warning(f"--bert-unchecked: {'; '.join(errors)}")
        return []
    return errors


def _configuration_parts(saved: Dict[str, Any], current: Dict[str, Any]) -> List[str]:
    """Return in words how the configuration of BERT differs from the *saved* one, or nothing."""
    recorded = saved.get("config")
    if not isinstance(recorded, dict):
        return []
    differences = config_differences(recorded, current["config"])
    named = [f"{name} {then!r}, not {now!r}" for name, then, now in differences[:_MOST_KEYS]]
    more = len(differences) - len(named)
    named += [f"and {more} more settings"] if more else []
    return [f"another configuration ({'; '.join(named)})"] if named else []


def _differences(model: Any, saved: Dict[str, Any], current: Dict[str, Any]) -> List[str]:
    errors = []
    parts = [
        f"{what} ({saved[key]}, not {current[key]})"
        for key, what in (("weights", "other weights"), ("tokenizer", "another tokenizer"))
        if saved[key] != current[key]
    ]
    placed = saved.get("weights_in_layers", current["weights_in_layers"])  # earlier versions did not record it
    if saved["weights"] == current["weights"] and placed != current["weights_in_layers"]:
        parts.insert(0, f"the same weights in other layers ({placed}, not {current['weights_in_layers']})")
    parts += _configuration_parts(saved, current)
    if parts:
        revision = f", revision {saved['revision']}" if saved["revision"] else ""
        errors.append(
            f"the checkpoint was trained with BERT {saved['name']!r}{revision}, and --bert-model "
            f"{model.cfg.bert_model} has {' and '.join(parts)}; name the BERT that it was trained with "
            "(at generation --model-overrides \"{'bert_model': 'NAME_OR_DIR'}\")"
        )
    settings = [
        f"--{name.replace('_', '-')} {_text(value)}, not {_text(current['settings'][name])}"
        for name, value in saved["settings"].items()
        if name in current["settings"] and value != current["settings"][name]
    ]
    if settings:
        errors.append(f"the checkpoint was trained with {', '.join(settings)}; set the same values as at training")
    return errors


def _text(value: Any) -> str:
    return "left out" if value is None else str(value)
