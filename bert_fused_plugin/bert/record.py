"""The record of BERT in a checkpoint, by which another BERT than that of the training is noticed."""

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from torch import Tensor

from bert_fused_plugin.bert.identity import recorded_config, weights_fingerprints
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.json_record import JsonRecord, read_json

RECORD_KEY = "encoder.bert_record.text"  # the record in the state dict of a model

_OPTIONAL = (str, type(None))
_KINDS: Dict[str, Any] = {
    "name": str,
    "revision": _OPTIONAL,
    "weights": _OPTIONAL,
    "tokenizer": str,
    "settings": dict,
    "given": list,
}


class BertRecord(JsonRecord):
    """Name, revision, configuration and fingerprints of BERT and its tokenizer, which are saved with the model.

    `read_record` reads the record from a checkpoint, to compare it with the present one.  Of a checkpoint
    that is loaded, the record takes over only where its training began.

    Args:
        bert: the encoder.
        bridge: the bridge, which derives BERT's input.
        mask_special_tokens: whether BERT's special tokens are masked out, so that the model does not attend to them.
    """

    def __init__(self, bert: PretrainedBert, bridge: DictionaryBridge, mask_special_tokens: bool) -> None:
        weights, placed = (None, None) if bert.saves_weights else weights_fingerprints(bert.model)
        super().__init__(
            {
                "name": bert.name,
                "revision": bert.revision,
                "config": recorded_config(bert.model.config),
                "weights": weights,
                "weights_in_layers": placed,
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
            }
        )

    def note_given(self, flags: Sequence[str]) -> None:
        """Record the *flags* that were given to the task and change what BERT reads."""
        self.update(given=list(flags))

    def note_origins(self, origins: Sequence[Sequence[Any]]) -> None:
        """Record *origins*, path and number of updates of each checkpoint that the parameters come from."""
        self.record.pop("began_from", None)
        self.update(**({"began_from": [list(origin) for origin in origins]} if origins else {}))

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Keep the record of the present BERT, but note where the parameters come from, as *state_dict* says.

        So a training that resumes keeps the note, though fairseq takes all flags from the command line then.
        """
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        text = state_dict.get(f"{prefix}text")
        if text is not None:
            self.note_origins(recorded_origins({RECORD_KEY: text}))


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
        record = read_record(state_dict)
    except ValueError:  # an error says so when the record is compared
        return []
    if record is None or "began_from" not in record:
        return []
    return [(path, updates) for path, updates in record["began_from"]]


def without_folders(state_dict: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return *state_dict* whose record names the files of `recorded_origins` without their folders."""
    found = [(os.path.basename(path), updates) for path, updates in recorded_origins(state_dict)]
    record = read_record(state_dict) if found else None
    if record is None:
        return state_dict
    return {**state_dict, RECORD_KEY: JsonRecord({**record, "began_from": found}).text}
