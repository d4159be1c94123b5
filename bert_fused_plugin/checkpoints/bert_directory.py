"""BERT as part of a model's directory: in the precision that its weights need, and as the model has it."""

import os
import shutil
from pathlib import Path
from typing import Any, Dict

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer
from transformers.utils import cached_file

from bert_fused_plugin.bert.finetuned_bert import FinetunedBert
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.record import BertRecord, read_record
from bert_fused_plugin.checkpoints.files import model_settings

BERT = "./bert"  # see `bert_fused_plugin.bert.loading.locate_bert`
_TEXT_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_PREFIX = "encoder.bert."  # of a fine-tuned BERT in a checkpoint


def save_bert(bert: FrozenBert, directory: Path) -> None:
    """Write *bert* to *directory*: weights as safetensors, configuration and tokenizer as they are where it is from."""
    # whatever it has of a model of the hub is in the cache since that was loaded
    model = AutoModel.from_pretrained(bert.name, torch_dtype=torch.float32, local_files_only=True)
    if isinstance(bert, FinetunedBert):
        encoder = model.get_encoder() if model.config.is_encoder_decoder else model
        encoder.load_state_dict(_trained_weights(bert), strict=False)  # of which it lacks the pooler, never used
    model.to(_smallest_dtype(model)).save_pretrained(directory)
    names = AutoTokenizer.from_pretrained(bert.name, local_files_only=True).vocab_files_names.values()
    for name in {"config.json", *_TEXT_FILES, *names}:
        source = cached_file(bert.name, name, local_files_only=True, _raise_exceptions_for_missing_entries=False)
        if source is not None:
            shutil.copyfile(source, directory / name)
    for weights in directory.glob("*.safetensors"):  # which are for the owner's eyes only
        weights.chmod((directory / "config.json").stat().st_mode)


def name_bert(state: Dict[str, Any], model: Any, directory: Path) -> None:
    """Let the checkpoint *state* of *model* read the BERT in *directory*, the one that it has, and no other.

    A fine-tuned BERT is in *directory* now, not in the checkpoint; the model is one with a frozen BERT.
    """
    settings = model_settings(state)
    settings.update(bert_model=BERT, bert_finetune=False)
    for name in ("bert_finetune_layers", "bert_lr_factor"):
        settings.pop(name, None)
    weights: Dict[str, Tensor] = state["model"]
    state["model"] = {key: value for key, value in weights.items() if not key.startswith(_PREFIX)}
    bert: FrozenBert = model.encoder.bert
    name, revision = bert.name, bert.revision
    if isinstance(bert, FinetunedBert):
        bert = FrozenBert.from_pretrained(str(directory), str(model.cfg.bert_layer))
    bert.name, bert.revision = os.path.basename(os.path.abspath(name)) if os.path.isdir(name) else name, revision
    record = BertRecord(bert, model.encoder.bridge, model.encoder.mask_special_tokens)
    record.note_given((read_record(weights) or record.record)["given"])
    state["model"]["encoder.bert_record.text"] = record.text


def _trained_weights(bert: FinetunedBert) -> Dict[str, Tensor]:
    factor = float(bert.lr_factor)
    scaled = {name: theta * factor for name, theta in bert.model.named_parameters() if theta.requires_grad}
    return {**bert.model.state_dict(), **scaled}


def _smallest_dtype(model: nn.Module) -> torch.dtype:
    """Return the shortest number format that holds all parameters of *model* exactly."""
    parameters = list(model.parameters())
    for dtype in (torch.bfloat16, torch.float16):
        if all(torch.equal(p.to(dtype).float(), p) for p in parameters):
            return dtype
    return torch.float32
