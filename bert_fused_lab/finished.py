"""What a finished model does not need: the state of its training, the places of its files, settings of its data."""

import os
import re
from typing import Any, Dict

from fairseq.dataclass.configs import DatasetConfig
from omegaconf import OmegaConf
from torch import Tensor

from bert_fused_plugin.checkpoints.record import BERT_RECORD, JsonRecord, read_json, recorded_origins
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

# settings that say what the model is, and how its data is read
_KEPT = re.compile(r"_name|data|dataset_impl|\w+_lang|left_pad_\w+|max_\w+_positions")


def without_training_state(state: Dict[str, Any]) -> Dict[str, Any]:
    """Return the checkpoint *state* without what only training needs: optimizer, meters, data position and EMA."""
    # the history of the optimizer stays, since it has the numbers of updates of this training and of those before it
    epoch = state["extra_state"]["train_iterator"]["epoch"]
    return {
        **state,
        "cfg": OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True),
        "extra_state": {"train_iterator": {"epoch": epoch}},
        "last_optimizer_state": None,
    }


def without_folders(state_dict: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return *state_dict* whose record names the files of `recorded_origins` without their folders."""
    began_from = [(os.path.basename(path or ""), updates) for path, updates in recorded_origins(state_dict)]
    if not began_from:
        return state_dict
    record = JsonRecord({**read_json(state_dict, BERT_RECORD), "began_from": began_from})
    return {**state_dict, BERT_RECORD: record.text}


def training_defaults() -> Dict[str, Any]:
    """Return the default of each setting of the translation task that a trained model does not need.

    Examples are buckets, whose padding would be read as words, files for BERT, and limits that fit only these files.
    """
    defaults: Any = OmegaConf.create({"task": BertFusedTranslationConfig(), "dataset": DatasetConfig()})
    task: Any = OmegaConf.to_container(defaults, resolve=True, enum_to_str=True)["task"]
    return {name: default for name, default in task.items() if not _KEPT.fullmatch(name)}
