"""Writes BERT into the directory of an exported model, with the weights that the model has."""

import copy
import os
import shutil
from pathlib import Path
from typing import Any, Dict

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer
from transformers.utils import cached_file

from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.bert.record import RECORD_KEY, BertRecord, read_record, recorded_origins

BERT = "./bert"  # see `bert_fused_plugin.bert.from_flags.locate_bert`
_TEXT_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_PREFIX = "encoder.bert."  # begins the names of a fine-tuned BERT's weights in a checkpoint


def save_bert(bert: PretrainedBert, directory: Path) -> None:
    """Write *bert* to *directory*: its weights as safetensors, and copies of its configuration and tokenizer files.

    The weights have the shortest number format that holds them exactly.
    """
    # A model of the hub has been loaded before, so all of its files are in the local cache.
    model = AutoModel.from_pretrained(bert.name, torch_dtype=torch.float32, local_files_only=True)
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    encoder.load_state_dict(bert.weights(), strict=False)  # they lack the pooler, which is never used
    model.to(_smallest_dtype(model)).save_pretrained(directory)
    names = AutoTokenizer.from_pretrained(bert.name, local_files_only=True).vocab_files_names.values()
    for name in {"config.json", *_TEXT_FILES, *names}:
        source = cached_file(bert.name, name, local_files_only=True, _raise_exceptions_for_missing_entries=False)
        if source is not None:
            shutil.copyfile(source, directory / name)


def name_bert(state: Dict[str, Any], settings: Dict[str, Any], model: Any) -> None:
    """Change the checkpoint *state* and the *settings* of *model* to name the BERT that `save_bert` writes beside it.

    A fine-tuned BERT is then no longer in the checkpoint, and the model has a frozen BERT.
    """
    settings.update(bert_model=BERT, bert_finetune=False)
    for name in ("bert_finetune_layers", "bert_lr_factor"):
        settings.pop(name, None)
    weights: Dict[str, Tensor] = state["model"]
    state["model"] = {key: value for key, value in weights.items() if not key.startswith(_PREFIX)}
    given: PretrainedBert = model.encoder.bert
    # The record is that of the model's own BERT, so that loading notices a directory with another one.
    encoder = copy.deepcopy(given.model)
    encoder.load_state_dict(given.weights())
    bert = FrozenBert(encoder, str(model.cfg.bert_layer))
    is_directory = os.path.isdir(given.name)
    bert.name = os.path.basename(os.path.abspath(given.name)) if is_directory else given.name
    bert.revision = given.revision
    record = BertRecord(bert, model.encoder.bridge, model.encoder.mask_special_tokens)
    record.update(given=(read_record(weights) or record.record)["given"])
    record.update(began_from=recorded_origins(weights))
    state["model"][RECORD_KEY] = record.text


def _smallest_dtype(model: nn.Module) -> torch.dtype:
    """Return the shortest number format that holds all parameters of *model* exactly."""
    parameters = list(model.parameters())
    for dtype in (torch.bfloat16, torch.float16):
        if all(torch.equal(p.to(dtype).float(), p) for p in parameters):
            return dtype
    return torch.float32
