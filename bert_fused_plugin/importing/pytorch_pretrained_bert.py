"""Converts a BERT of pytorch_pretrained_bert, the library that bert-nmt used, into a Hugging Face directory."""

import json
from pathlib import Path
from textwrap import shorten
from typing import Dict

from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedModel

from bert_fused_plugin.bert.pretrained_bert import load_encoder
from bert_fused_plugin.checkpoints.reading import read_torch_file
from bert_fused_plugin.errors import BertFusedError

# names of the published models for which bert-nmt does not lower-case text; for a directory it always does so
CASED = ("bert-base-cased", "bert-large-cased", "bert-base-multilingual-cased", "bert-base-german-cased")
_REMEDY = (
    "give the BERT that the model was trained with: a Hugging Face directory, or one of pytorch_pretrained_bert with "
    "bert_config.json, pytorch_model.bin and vocab.txt"
)


def is_hugging_face(directory: Path) -> bool:
    """Say whether *directory* has a Hugging Face configuration."""
    try:
        return "model_type" in json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def read_bert_directory(directory: Path) -> PreTrainedModel:
    """Return the BERT in a directory of Hugging Face or of pytorch_pretrained_bert.

    Raises:
        BertFusedError: There is no BERT in *directory*, or it is damaged.
    """
    if is_hugging_face(directory):
        return load_encoder(str(directory))
    config, later = directory / "bert_config.json", directory / "config.json"
    config = later if later.is_file() and not config.is_file() else config
    files = (config, directory / "pytorch_model.bin", directory / "vocab.txt")
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise BertFusedError(f"--bert {directory} has no {' and no '.join(missing)}; {_REMEDY}")
    state = read_torch_file(files[1], _REMEDY, content="weights of BERT", given=f"--bert {files[1]}")
    try:
        model = BertModel(BertConfig.from_json_file(config))
        wrong = model.load_state_dict(_current_names(state), strict=False)
        keys = [key for key in (*wrong.missing_keys, *wrong.unexpected_keys) if not key.startswith("pooler.")]
        if keys:
            raise KeyError(f"{keys[0]} is missing or unknown")
    except Exception as error:  # a damaged file can raise any exception
        raise BertFusedError(f"--bert {directory} cannot be used [{shorten(str(error), 600)}]; {_REMEDY}") from error
    return model


def _current_names(state: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return BERT's weights by their present names, without the heads of the pre-training."""
    prefix = "bert." if any(key.startswith("bert.") for key in state) else ""
    result = {}
    for key, value in state.items():
        if key.startswith(prefix) and not key.endswith("position_ids"):
            name = key[len(prefix) :].replace("LayerNorm.gamma", "LayerNorm.weight")
            result[name.replace("LayerNorm.beta", "LayerNorm.bias")] = value
    return result


def write_hugging_face(bert: PreTrainedModel, source: Path, directory: Path, *, lower_case: bool) -> None:
    """Write the BERT that was read from the directory *source*, which has its vocabulary, to a Hugging Face directory.

    *lower_case* says whether its tokenizer lower-cases text.
    """
    bert.save_pretrained(directory)
    with open(source / "vocab.txt", encoding="utf-8") as lines:
        vocabulary = [line.strip() for line in lines]  # bert-nmt strips the lines too
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary), encoding="utf-8")
    limit = bert.config.max_position_embeddings
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower_case, "model_max_length": limit}
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
