"""What users mix up when a checkpoint is loaded: dictionaries, BERT models, fine-tuned and frozen ones."""

from typing import Any, Dict, List

from torch import Tensor

from bert_fused_plugin.modules.bert_record import read_record

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
    if model.encoder.bert_record is None or model.cfg.bert_unchecked:
        return []
    overrides = "--bert-unchecked (at generation --model-overrides \"{'bert_unchecked': True}\")"
    own = model.encoder.bert_record.record
    try:
        saved = read_record(state_dict) or own
    except ValueError:
        return [f"the checkpoint's record of its BERT is damaged; load it unchecked with {overrides}"]
    parts = [
        f"{what} ({saved[key]}, not {own[key]})"
        for key, what in (("weights", "other weights"), ("tokenizer", "another tokenizer"))
        if saved[key] != own[key]
    ]
    if not parts:
        return []
    revision = f", revision {saved['revision']}" if saved["revision"] else ""
    return [
        f"the checkpoint was trained with BERT {saved['name']!r}{revision}, --bert-model {model.cfg.bert_model} has "
        f"{' and '.join(parts)}; name the BERT that it was trained with "
        f"(at generation --model-overrides \"{{'bert_model': 'NAME_OR_DIR'}}\"), or take this one with {overrides}"
    ]
