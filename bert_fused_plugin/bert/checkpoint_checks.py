"""What users mix up when a checkpoint is loaded: dictionaries, BERT models, fine-tuned and frozen ones."""

import logging
from typing import Any, Dict, List

from torch import Tensor

from bert_fused_plugin.bert.record import read_record

logger = logging.getLogger(__name__)

# what reads BERT's states, and so has its width
_READERS = ("bert_attn.k_proj.weight", "bert_attention.key_proj.weight", "encoder.bert_proj.weight")


def misfits(model: Any, state_dict: Dict[str, Tensor]) -> List[str]:
    """Return a sentence for each reason why the checkpoint *state_dict* is not one of *model*."""
    own: Dict[str, Tensor] = model.state_dict()
    errors = []
    for side, what in (("encoder", "source"), ("decoder", "target")):
        key = f"{side}.embed_tokens.weight"
        if key in state_dict and key in own and len(state_dict[key]) != len(own[key]):
            errors.append(
                f"the checkpoint knows {len(state_dict[key])} {what} symbols, the {what} dictionary of the data has "
                f"{len(own[key])}; use the dict.*.txt that the model was trained with "
                "(fairseq-preprocess --srcdict, --tgtdict)"
            )
    widths = [key for key in own if key.endswith(_READERS) and key in state_dict]
    for key in widths[:1]:
        if state_dict[key].size(1) != own[key].size(1):
            errors.append(
                f"the checkpoint was trained with a BERT of width {state_dict[key].size(1)}, --bert-model "
                f"{model.cfg.bert_model} has {own[key].size(1)}; name the BERT that it was trained with "
                "(--model-overrides \"{'bert_model': 'NAME_OR_DIR'}\" at generation)"
            )
    return errors or _bert_misfits(model, state_dict, own) or _record_misfits(model, state_dict)


def _bert_misfits(model: Any, state_dict: Dict[str, Tensor], own: Dict[str, Tensor]) -> List[str]:
    prefix = "encoder.bert.model."
    saved, expected = ({key for key in state if key.startswith(prefix)} for state in (state_dict, own))
    if bool(saved) != bool(expected):
        was, now = ("with", "without") if saved else ("without", "with")
        return [
            f"the checkpoint was trained {was} --bert-finetune, this model is built {now} it; "
            f"{'add' if saved else 'leave out'} --bert-finetune, or begin anew with --bert-warm-start"
        ]
    if saved != expected or any(state_dict[key].shape != own[key].shape for key in saved):
        return [
            f"the checkpoint holds another BERT than --bert-model {model.cfg.bert_model}; "
            "name the one that it was fine-tuned from"
        ]
    return []


def _record_misfits(model: Any, state_dict: Dict[str, Tensor]) -> List[str]:
    """Compare the records of BERT; what makes less of a difference than another BERT is a warning."""
    if model.encoder.bert_record is None:
        return []
    own = model.encoder.bert_record.record
    unchecked = "--bert-unchecked (at generation --model-overrides \"{'bert_unchecked': True}\")"
    try:
        saved = read_record(state_dict) or own
    except ValueError:
        saved, errors = own, [f"the checkpoint's record of its BERT is damaged; load it all the same with {unchecked}"]
    else:
        errors = [f"{error}, or load it all the same with {unchecked}" for error in _differences(model, saved, own)]
    forgotten = [flag for flag in saved["given"] if flag not in own["given"]]
    if forgotten:
        logger.warning(
            f"the model was trained with {' and '.join(forgotten)}, which is not given now: BERT reads other input"
        )
    if errors and model.cfg.bert_unchecked:
        logger.warning(f"--bert-unchecked: {'; '.join(errors)}")
        return []
    return errors


def _differences(model: Any, saved: Dict[str, Any], own: Dict[str, Any]) -> List[str]:
    errors = []
    parts = [
        f"{what} ({saved[key]}, not {own[key]})"
        for key, what in (("weights", "other weights"), ("tokenizer", "another tokenizer"))
        if saved[key] != own[key]
    ]
    if parts:
        revision = f", revision {saved['revision']}" if saved["revision"] else ""
        errors.append(
            f"the checkpoint was trained with BERT {saved['name']!r}{revision}, --bert-model {model.cfg.bert_model} "
            f"has {' and '.join(parts)}; name the BERT that it was trained with "
            "(at generation --model-overrides \"{'bert_model': 'NAME_OR_DIR'}\")"
        )
    settings = [
        f"--{name.replace('_', '-')} {value}, not {own['settings'][name]}"
        for name, value in saved["settings"].items()
        if name in own["settings"] and value != own["settings"][name]
    ]
    if settings:
        errors.append(f"the checkpoint was trained with {', '.join(settings)}; give it as at training")
    return errors
