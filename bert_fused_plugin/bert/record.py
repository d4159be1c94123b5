"""The record of BERT in a checkpoint, and whether a checkpoint fits the BERT of a model."""

import hashlib
import logging
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from torch import Tensor

from bert_fused_plugin.bert.flags import BertFlags
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import flag_name
from bert_fused_plugin.flags import Record, recorded
from bert_fused_plugin.json_record import JsonRecord, read_json

logger = logging.getLogger(__name__)

RECORD_KEY = "encoder.bert_record.text"  # the record in the state dict of a model
OF_DATA = ("bert_subword", "bert_detok", "bert_strip_tags", "bpe")  # settings that follow from the dictionary

_FINGERPRINTS = {
    "weights_in_layers": "other weights",
    "configuration": "another configuration",
    "tokenizer": "another tokenizer",
}
# the settings that change states and no weight, under the names that they have in different encoders
_OF_STATES = (
    *("hidden_act", "hidden_activation", "activation_function", "activation", "feed_forward_proj"),
    *("num_attention_heads", "num_heads", "n_head", "n_heads", "encoder_attention_heads", "num_hidden_layers"),
    *("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "rms_norm_eps"),
)
_ITS_BERT = "name the BERT that it was trained with (at generation --model-overrides \"{'bert_model': 'NAME_OR_DIR'}\")"


class BertRecord(JsonRecord):
    """Name and fingerprints of BERT and its tokenizer, which are saved with the model.

    ``given`` has the flags of the task that change what BERT reads, and ``began_from`` path and number of updates of
    each checkpoint that the parameters come from.  Of a checkpoint that is loaded, the record takes over the latter.
    """

    def __init__(self, bert: PretrainedBert, bridge: DictionaryBridge, cfg: BertFlags) -> None:
        super().__init__(
            {
                "name": bert.name,
                "weights_in_layers": None if bert.saves_weights else weights_fingerprint(bert),
                "configuration": configuration(bert),
                "tokenizer": bridge.tokenizer_fingerprint(),
                "settings": {
                    **recorded(cfg, Record.BERT),
                    # what these flags stand for with this BERT and this dictionary
                    "bert_layer": ",".join(map(str, bert.layers)),
                    "bert_subword": bridge.subword,
                    "bert_detok": bridge.detok,
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


def weights_fingerprint(bert: PretrainedBert) -> str:
    """Return a hash of the values of all parameters of *bert*, and of the layers that they are in.

    Of the parameters' names, which differ between versions of transformers, only the numbers of the layers count.
    """
    parts, weights = [], bert.weights()
    for name, _ in bert.model.named_parameters():
        digest = hashlib.sha256(str(tuple(weights[name].shape)).encode())
        digest.update(weights[name].detach().cpu().float().contiguous().numpy().data)
        parts.append(",".join(re.findall(r"\d+", name)).encode() + b":" + digest.digest())
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()[:32]


def configuration(bert: PretrainedBert) -> str:
    """Return the settings of *bert* that change its states and that its weights do not show."""
    config = {**bert.model.config.to_dict(), "num_hidden_layers": bert.depth}  # which some have under another name
    return ", ".join(f"{name} {config[name]}" for name in _OF_STATES if name in config)


def recorded_origins(state_dict: Mapping[str, Tensor]) -> List[Tuple[str, Optional[int]]]:
    """Return path and number of updates of each checkpoint that ``--bert-warm-start`` took parameters from.

    The last one comes first, then the one that that one began from.
    """
    return [(path, updates) for path, updates in (read_json(state_dict, RECORD_KEY) or {}).get("began_from", ())]


def without_folders(state_dict: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return *state_dict* whose record names the files of `recorded_origins` without their folders."""
    found = [(os.path.basename(path), updates) for path, updates in recorded_origins(state_dict)]
    if not found:
        return state_dict
    record = JsonRecord({**(read_json(state_dict, RECORD_KEY) or {}), "began_from": found})
    return {**state_dict, RECORD_KEY: record.text}


def finetuning_errors(model: Any, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence if one of *model* and the checkpoint *state_dict* has a BERT that trains, and one has not."""
    then = any(key.startswith("encoder.bert.model.") for key in state_dict)
    if model.encoder.bert_record is None or then == model.encoder.bert.saves_weights:
        return []
    trained, built, remedy = ("with", "without", "add") if then else ("without", "with", "leave out")
    or_begin = ", or start a new training with --bert-warm-start" if "bert_warm_start" in vars(model.cfg) else ""
    return [
        f"the checkpoint was trained {trained} --bert-finetune, and this model is built {built} it; "
        f"{remedy} --bert-finetune{or_begin}"
    ]


def incompatibilities(model: Any, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence for each difference between the BERT of *model* and that of the checkpoint *state_dict*."""
    if model.encoder.bert_record is None:
        return []
    current = model.encoder.bert_record.record
    saved = read_json(state_dict, RECORD_KEY) or current
    forgotten = [flag for flag in saved["given"] if flag not in current["given"]]
    if forgotten:
        logger.warning(
            f"the model was trained with {' and '.join(forgotten)}, which is not given now, so BERT reads other input; "
            "translate data instead of typed lines, and give it again (docs/encoders.md)"
        )
    return differences_of_bert(model.cfg.bert_model, saved, current)


def differences_of_bert(name: str, saved: Dict[str, Any], current: Dict[str, Any]) -> List[str]:
    """Return a sentence if BERT or its tokenizer is another one, and one if it is given other input.

    BERT has the *name*, and *saved* and *current* are records.  The weights of a BERT that trains are not recorded.
    """
    parts = [
        f"{what} ({saved[key]}, not {current[key]})"
        for key, what in _FINGERPRINTS.items()
        if None not in (saved.get(key), current[key]) and _differ(saved[key], current[key])
    ]
    errors = []
    if parts:
        errors.append(
            f"the checkpoint was trained with BERT {saved['name']!r}, and --bert-model {name} has "
            f"{' and '.join(parts)}; {_ITS_BERT}"
        )
    then, now = (
        {flag_name(key): as_given(key, value) for key, value in record["settings"].items()}
        for record in (saved, current)
    )
    flags = [f"{flag} {then[flag]}, not {now[flag]}" for flag in then if flag in now and then[flag] != now[flag]]
    if flags:
        errors.append(f"the checkpoint was trained with {', '.join(flags)}; set the same values as at training")
    return errors


def as_given(key: str, value: Any) -> Any:
    """Return the *value* of a recorded setting as its flag takes it."""
    if key == "bert_layer" and "," in value:
        return "mix" if value.startswith("0,") else f"random:{value.count(',') + 1}"
    return "left out" if value is None else value


def settings_of(configuration: str) -> Dict[str, str]:
    """Return the settings that a *configuration* lists; which ones it has depends on the version of transformers."""
    return dict(part.rpartition(" ")[::2] for part in configuration.split(", "))


def _differ(saved: str, current: str) -> bool:
    then, now = settings_of(saved), settings_of(current)
    return any(then[name] != now[name] for name in then.keys() & now.keys())
