"""What a model says about itself in its checkpoints: its settings, its dictionaries, its BERT, and where it began.

fairseq takes the flags of a model from the command line when a training resumes.  Most wrong flags change the shape of
a parameter, which fairseq notices.  The settings that are recorded here would change the model silently, and so would
another BERT, or a dictionary of the same size.
"""

import hashlib
import json
import logging
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask
from torch import Tensor, nn

from bert_fused_plugin.checkpoints.reading import saved_flags
from bert_fused_plugin.errors import BertFusedError, flag_name
from bert_fused_plugin.flags import Record, recorded

logger = logging.getLogger(__name__)

# the names of the records in a checkpoint
SETTINGS_RECORD = "settings_record.text"
BERT_RECORD = "encoder.bert_record.text"
RECORDS = (BERT_RECORD, SETTINGS_RECORD)

Difference = Tuple[str, Any, Any]  # the name of a setting, and both of its values

OF_DATA = ("bert_subword", "bert_detok", "bert_strip_tags", "bpe")  # settings of BERT that follow from the dictionary

_OWN_RESTORE_FILE = "checkpoint_last.pt"  # fairseq's default, which lets a training resume
_BLOCK = 2048
_SAME = 0.01  # the largest difference of states that count as the same, relative to them
_SIDES = {"encoder": "source", "decoder": "target"}
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


class JsonRecord(nn.Module):
    """A JSON text that is saved with the model, and never loaded: a model keeps the record of itself.

    The buffer holds one float for each byte, because averaging, EMA and half precision do not change these numbers.
    It is filled up to whole blocks, because fairseq's EMA in single precision (``--ema-fp32``) requires that it has the
    same length when a training resumes.
    """

    text: Tensor

    def __init__(self, content: Dict[str, Any]) -> None:
        super().__init__()
        self.content = content
        self.register_buffer("text", self._encoded())

    def update(self, **values: Any) -> None:
        """Replace the entries that are named."""
        self.content.update(values)
        self.text = self._encoded().to(self.text)

    def _encoded(self) -> Tensor:
        text = json.dumps(self.content, default=str).encode()
        return torch.tensor(list(text.ljust(-(-len(text) // _BLOCK) * _BLOCK)), dtype=torch.float32)

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Keep the record of the present model."""


class BertRecord(JsonRecord):
    """Name and fingerprints of BERT and its tokenizer, and the ``settings`` that say what they read.

    ``given`` has the flags of the task that change what BERT reads, and ``began_from`` path and number of updates of
    each checkpoint that the parameters come from.  Of a checkpoint that is loaded, the record takes over the latter.
    """

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        # a training that resumes keeps the note, though fairseq takes all flags from the command line then
        if (text := state_dict.get(f"{prefix}text")) is not None:
            self.update(began_from=recorded_origins({BERT_RECORD: text}))


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


def read_json(state_dict: Mapping[str, Tensor], key: str) -> Dict[str, Any]:
    """Return the record whose text a *state_dict* has under *key*; it is empty if there is none.

    Raises:
        BertFusedError: the record is damaged.
    """
    if key not in state_dict:
        return {}
    try:
        return json.loads(bytes(state_dict[key].float().round().long().clamp(0, 255).tolist()))
    except ValueError as error:
        remedy = "give an undamaged checkpoint; average checkpoints with bert-fused-average"
        raise BertFusedError(f"the checkpoint's record {key} is damaged; {remedy}") from error


def changed_settings(model: Any, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence for each setting of *model* with which the checkpoint *state_dict* would be another model."""
    current, saved = model.settings_record.content, read_json(state_dict, SETTINGS_RECORD)
    noted, changed = (
        [reason_and_remedy("the checkpoint", change) for change in differences(saved.get(kind, {}), current[kind])]
        for kind in ("noted", "computed")
    )
    if noted:
        logger.warning("; ".join(reason for reason, _ in noted))
    return ["; ".join(sentence) for sentence in changed] + [
        f"the checkpoint was trained with another {_SIDES[name]} dictionary: that of the data has other symbols, or "
        "the same ones in another order; use the dict.*.txt that the model was trained with (fairseq-preprocess "
        "--srcdict, --tgtdict)"
        for name, _, _ in differences(saved.get("symbols", {}), current["symbols"])
    ]


def finetuning_errors(model: Any, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence if one of *model* and the checkpoint *state_dict* has a BERT that trains, and one has not."""
    then = any(key.startswith("encoder.bert.model.") for key in state_dict)
    if model.encoder.source is None or then == model.encoder.source.bert.saves_weights:
        return []
    trained, built, remedy = ("with", "without", "add") if then else ("without", "with", "leave out")
    or_begin = ", or start a new training with --bert-warm-start" if "bert_warm_start" in vars(model.cfg) else ""
    return [
        f"the checkpoint was trained {trained} --bert-finetune, and this model is built {built} it; "
        f"{remedy} --bert-finetune{or_begin}"
    ]


def changed_bert(model: Any, state_dict: Mapping[str, Tensor]) -> List[str]:
    """Return a sentence for each difference between the BERT of *model* and that of the checkpoint *state_dict*."""
    if model.encoder.source is None:
        return []
    current = model.encoder.source.record.content
    saved = read_json(state_dict, BERT_RECORD) or current
    forgotten = [flag for flag in saved["given"] if flag not in current["given"]]
    if forgotten:
        logger.warning(
            f"the model was trained with {' and '.join(forgotten)}, which is not given now, so BERT reads other input; "
            "translate data instead of typed lines, and give it again (docs/encoders.md)"
        )
    return differences_of_bert(model.cfg.bert_model, saved, current)


def differences_of_bert(name: str, saved: Dict[str, Any], current: Dict[str, Any]) -> List[str]:
    """Return sentences if the BERT *name*, its tokenizer or its input differ between the records."""
    parts = [
        f"{what} ({saved[key]}, not {current[key]})"
        for key, what in _FINGERPRINTS.items()
        if None not in (saved.get(key), current[key])
        and differences(settings_of(saved[key]), settings_of(current[key]))
    ]
    reads_same_layers = saved["settings"].get("bert_layer") == current["settings"]["bert_layer"]
    if reads_same_layers and not parts and not same_states(saved.get("states"), current["states"]):
        parts.append("other states for the same input (its settings, or the version of transformers, have changed)")
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


def same_states(then: Optional[List[List[float]]], now: Optional[List[List[float]]]) -> bool:
    """Return whether the states of two probes, of which small ones count as the median, differ by rounding at most."""
    if then is None or now is None:
        return True
    one, other = torch.tensor(then), torch.tensor(now)
    scale = one.abs().maximum(one.abs().median(dim=1, keepdim=True).values)
    return one.shape == other.shape and bool(((one - other).abs() <= _SAME * scale).all())


def as_given(key: str, value: Any) -> Any:
    """Return the *value* of a recorded setting as its flag takes it."""
    if key == "bert_layer" and "," in value:
        return "mix" if value.startswith("0,") else f"random:{value.count(',') + 1}"
    return "left out" if value is None else value


def differences(then: Dict[str, Any], now: Dict[str, Any]) -> List[Difference]:
    """Return name and both values of each setting that differs; one that is in *then* or *now* alone has no effect."""
    return [(name, value, now[name]) for name, value in then.items() if name in now and value != now[name]]


def reason_and_remedy(checkpoint: str, difference: Difference) -> Tuple[str, str]:
    """Return how the training of the *checkpoint* differs from the model at hand, and the remedy."""
    name, *values = difference
    flag = flag_name(name)
    # a switch that is off and a flag that was not given are not typed
    typed = ["" if v is None or v is False else flag if v is True else f"{flag} {v}" for v in values]
    then, now = (f"with {text}" if text else f"without {flag}" for text in typed)
    reason = f"{checkpoint} was trained {then}, and this model is built {now}"
    return reason, f"give {typed[0]}" if typed[0] else f"leave {flag} out"


def fingerprint(dictionary: Dictionary) -> Dict[str, Any]:
    """Return what tells a *dictionary* from others."""
    text = "\n".join(dictionary.symbols).encode("utf-8", "surrogatepass")
    return {"count": len(dictionary), "hash": hashlib.sha256(text).hexdigest()[:16]}


def configuration(config: Mapping[str, Any]) -> str:
    """Return the settings in *config*, that of a BERT, which change its states and which its weights do not show."""
    return ", ".join(f"{name} {config[name]}" for name in _OF_STATES if name in config)


def settings_of(configuration: str) -> Dict[str, str]:
    """Return the settings that a *configuration* lists; which ones it has depends on the version of transformers.

    A hash counts as one setting without a name.
    """
    return dict(part.rpartition(" ")[::2] for part in configuration.split(", "))


class Origin(NamedTuple):
    """Path and number of updates, as far as they are known, of a checkpoint that a training began with."""

    path: Optional[str]
    updates: Optional[int]


def origins(checkpoint: Mapping[str, Any]) -> List[Origin]:
    """Return the checkpoint that the training of *checkpoint* began from, then the one that that one began from, ...

    ``--bert-warm-start`` is in the record beside the parameters.  fairseq knows of ``--finetune-from-model``, and of
    ``--restore-file`` with ``--reset-optimizer``: their flags are in the settings, and the checkpoint's history of
    optimizers has one number of updates for each launch, also for the launches of the checkpoint that it began from.
    """
    return [*_of_flags(checkpoint), *recorded_origins(checkpoint["model"])]


def _of_flags(checkpoint: Mapping[str, Any]) -> List[Origin]:
    flags = saved_flags(checkpoint, "checkpoint")
    launches = [int(entry.get("num_updates", 0)) for entry in checkpoint["optimizer_history"]]
    begun = [i for i in range(1, len(launches)) if launches[i] < launches[i - 1]]  # the count began at 0 again
    path, last = flags.get("finetune_from_model"), len(launches) - 1
    if path is None and flags.get("reset_optimizer") and flags.get("restore_file") not in (None, _OWN_RESTORE_FILE):
        path = flags["restore_file"]  # which every launch of this training begins from
        begun = sorted({*begun, last})
    elif path is not None and last == 1:
        begun = [1]
    if path is not None and (not begun or begun[-1] < 1):
        return [Origin(path, None)]  # the training was resumed, and has more updates than the checkpoint
    began_from = [Origin(None, launches[i - 1]) for i in reversed(begun)]
    return began_from if path is None else [began_from[0]._replace(path=path), *began_from[1:]]


def recorded_origins(state_dict: Mapping[str, Tensor]) -> List[Origin]:
    """Return path and number of updates of each checkpoint that ``--bert-warm-start`` took from, the last one first."""
    return [Origin(*recorded) for recorded in read_json(state_dict, BERT_RECORD).get("began_from", ())]
