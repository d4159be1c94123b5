"""The default values of the settings that only the training of a model needs."""

from typing import Any, Dict

from fairseq.dataclass.configs import DatasetConfig
from omegaconf import OmegaConf

from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

# settings that say what the model is, and how its data is read
_KEPT = (
    "_name",
    "data",
    "dataset_impl",
    "source_lang",
    "target_lang",
    "left_pad_source",
    "left_pad_target",
    "max_source_positions",
    "max_target_positions",
)


def training_defaults() -> Dict[str, Any]:
    """Return the default of each setting of the translation task that a trained model does not need.

    Examples are buckets, whose padding would be read as words, files for BERT, and limits that fit only these files.
    """
    defaults: Any = OmegaConf.create({"task": BertFusedTranslationConfig(), "dataset": DatasetConfig()})
    task: Any = OmegaConf.to_container(defaults, resolve=True, enum_to_str=True)["task"]
    return {name: default for name, default in task.items() if name not in _KEPT}
