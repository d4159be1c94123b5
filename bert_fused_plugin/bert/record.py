"""The record of BERT in a checkpoint, and whether a checkpoint fits a model: its dictionaries and its BERT."""

import logging
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from torch import Tensor

from bert_fused_plugin.bert.identity import config_differences, recorded_config, weights_fingerprint
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import flag_name
from bert_fused_plugin.json_record import JsonRecord, read_json

logger = logging.getLogger(__name__)

RECORD_KEY = "encoder.bert_record.text"  # the record in the state dict of a model

_KINDS: Dict[str, Any] = {"name": str, "config": dict, "tokenizer": str, "settings": dict, "given": list}
_FINGERPRINTS = {"weights_in_layers": "other weights", "tokenizer": "another tokenizer"}
_MOST_KEYS = 5  # settings of a configuration that a message names
# parameters that are applied to BERT's states, and so have BERT's width
_AS_WIDE_AS_BERT = ("bert_attn.k_proj.weight", "bert_attention.key_proj.weight", "encoder.bert_proj.weight")
_UNCHECKED = "--bert-unchecked (at generation --model-overrides \"{'bert_unchecked': True}\")"
_ITS_BERT = "name the BERT that it was trained with (at generation --model-overrides \"{'bert_model': 'NAME_OR_DIR'}\")"


class BertRecord(JsonRecord):
    """Name, revision, configuration and fingerprints of BERT and its tokenizer, which are saved with the model.

    ``given`` has the flags of the task that change what BERT reads, and ``began_from`` path and number of updates of
    each checkpoint that the parameters come from.  Of a checkpoint that is loaded, the record takes over only these.
    """

    def __init__(self, bert: PretrainedBert, bridge: DictionaryBridge, mask_special_tokens: bool) -> None:
        super().__init__(
            {
                "name": bert.name,
                "revision": bert.revision,
                "config": recorded_config(bert.model.config),
                "weights_in_layers": None if bert.saves_weights else weights_fingerprint(bert.model),
                "tokenizer": bridge.tokenizer_fingerprint(),
                "settings": {
                    "bert_layer": ",".join(map(str, bert.layers)),
                    "bert_subword": bridge.subword,
                    "bert_detok": bridge.detok,
                    "bert_context": bridge.context,
                    "bert_mask_special_tokens": mask_special_tokens,
                    "bert_strip_tags": ",".join(bridge.tags) or None,
                    **({} if bridge.bpe is None else {"bpe": bridge.bpe}),
                },
                "given": [],
                "began_from": [],
            }
        )

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Keep the record of the present BERT, but note where the parameters come from, as *state_dict* says.

        So a training that resumes keeps the note, though fairseq takes all flags from the command line then.
        """
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        text = state_dict.get(f"{prefix}text")
        if text is not None:
            self.update(began_from=recorded_origins({RECORD_KEY: text}))


def read_record(state_dict: Mapping[str, Tensor]) -> Optional[Dict[str, Any]]:
    """Return the record in a model's *state_dict*; None if there is no record, as in models without BERT.

    Raises:
        ValueError: The record is damaged.
    """
    return read_json(state_dict, RECORD_KEY, _KINDS)


def recorded_origins(state_dict: Mapping[str, Tensor]) -> List[Tuple[str, Optional[int]]]:
    """Return path and number of updates of each checkpoint that ``--bert-warm-start`` took parameters from.

    The last one comes first, then the one that that one began from.  A damaged record has none.
    """
    try:
        record = read_record(state_dict) or {}
    except ValueError:  # an error says so when the record is compared
        return []
    return [(path, updates) for path, updates in record.get("began_from", ())]


def without_folders(state_dict: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return *state_dict* whose record names the files of `recorded_origins` without their folders."""
    found = [(os.path.basename(path), updates) for path, updates in recorded_origins(state_dict)]
    if not found:
        return state_dict
    record = JsonRecord({**(read_record(state_dict) or {}), "began_from": found})
    return {**state_dict, RECORD_KEY: record.text}


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
    for key in [key for key in expected if key.endswith(_AS_WIDE_AS_BERT) and key in state_dict][:1]:
        if state_dict[key].size(1) != expected[key].size(1):
            errors.append(
                f"the checkpoint was trained with a BERT of width {state_dict[key].size(1)}, and --bert-model "
                f"{model.cfg.bert_model} has width {expected[key].size(1)}; {_ITS_BERT}"
            )
    then, now = (
        {key: value.shape for key, value in state.items() if key.startswith("encoder.bert.model.")}
        for state in (state_dict, expected)
    )
    if bool(then) != bool(now):
        trained, built, remedy = ("with", "without", "add") if then else ("without", "with", "leave out")
        errors.append(
            f"the checkpoint was trained {trained} --bert-finetune, and this model is built {built} it; "
            f"{remedy} --bert-finetune, or start a new training with --bert-warm-start"
        )
    elif then != now and not errors:
        errors.append(f"the checkpoint holds another BERT than --bert-model {model.cfg.bert_model}; {_ITS_BERT}")
    return errors or _other_records(model, state_dict)


def _other_records(model: Any, state_dict: Dict[str, Tensor]) -> List[str]:
    """Compare the records of BERT; a smaller difference than another BERT only gives a warning."""
    if model.encoder.bert_record is None:
        return []
    current = model.encoder.bert_record.record
    try:
        saved = read_record(state_dict) or current
        errors = _differences(model.cfg.bert_model, saved, current)
    except ValueError:
        saved, errors = current, ["the checkpoint's record of its BERT is damaged; give an undamaged checkpoint"]
    forgotten = [flag for flag in saved["given"] if flag not in current["given"]]
    if forgotten:
        logger.warning(
            f"the model was trained with {' and '.join(forgotten)}, which is not given now, so BERT reads other input"
        )
    if errors and model.cfg.bert_unchecked:
        logger.warning(f"--bert-unchecked: {'; '.join(errors)}")
        return []
    return [f"{error}, or load the checkpoint nevertheless with {_UNCHECKED}" for error in errors]


def _differences(name: str, saved: Dict[str, Any], current: Dict[str, Any]) -> List[str]:
    """Return a sentence if BERT or its tokenizer is another one, and one if it is given other input."""
    parts = [
        f"{what} ({saved[key]}, not {current[key]})"
        for key, what in _FINGERPRINTS.items()
        if saved.get(key, current[key]) != current[key]
    ]
    settings = [
        f"{key} {then!r}, not {now!r}" for key, then, now in config_differences(saved["config"], current["config"])
    ]
    if settings:
        more = [f"and {len(settings) - _MOST_KEYS} more settings"] if len(settings) > _MOST_KEYS else []
        parts.append(f"another configuration ({'; '.join([*settings[:_MOST_KEYS], *more])})")
    errors = []
    if parts:
        revision = f", revision {saved['revision']}" if saved["revision"] else ""
        errors.append(
            f"the checkpoint was trained with BERT {saved['name']!r}{revision}, and --bert-model {name} has "
            f"{' and '.join(parts)}; {_ITS_BERT}"
        )
    then, now = (
        {flag_name(key): "left out" if value is None else value for key, value in record["settings"].items()}
        for record in (saved, current)
    )
    flags = [f"{flag} {then[flag]}, not {now[flag]}" for flag in then if flag in now and then[flag] != now[flag]]
    if flags:
        errors.append(f"the checkpoint was trained with {', '.join(flags)}; set the same values as at training")
    return errors
