"""Finds and loads BERT and its dictionary bridge for any model, and describes them for the log."""

import os
from typing import TYPE_CHECKING, Any, List, Tuple

from fairseq.utils import split_paths

from bert_fused_plugin.bert.bridge_loading import load_bridge, task_settings
from bert_fused_plugin.bert.finetuned_bert import FinetunedBert
from bert_fused_plugin.bert.flags import BertFlags
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.hugging_face import load_tokenizer
from bert_fused_plugin.bert.pretrained_bert import PretrainedBert
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.errors import BertFusedError, raise_all

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_bert(cfg: BertFlags, task: Any, errors: List[str], flags: Any) -> Tuple[PretrainedBert, DictionaryBridge]:
    """Load the encoder and the tokenizer that *cfg* names.

    Args:
        cfg: the model's flags.
        task: fairseq's task, which has the source dictionary and language.
        errors: sentences about errors in other flags, which are reported together with those found here.
        flags: all flags that were given together with the model's.

    Raises:
        BertFusedError: There are *errors*, or BERT cannot be used as the flags say.
    """
    if cfg.bert_model is None:
        raise BertFusedError(*errors)
    try:
        name = locate_bert(cfg.bert_model, task)
        tokenizer = load_tokenizer(name)
        if cfg.bert_finetune:
            bert: PretrainedBert = FinetunedBert.from_pretrained(
                name,
                str(cfg.bert_layer),
                last_layers=cfg.bert_finetune_layers,
                lr_factor=cfg.bert_lr_factor,
            )
        else:
            bert = FrozenBert.from_pretrained(name, str(cfg.bert_layer))
        errors = errors + _vocabulary_errors(cfg, tokenizer, bert)
        limit = min(bert.max_positions, int(tokenizer.model_max_length))
        if cfg.bert_max_tokens is not None and cfg.bert_max_tokens > limit:
            errors.append(
                f"--bert-max-tokens must be at most {limit}, the positions of --bert-model {cfg.bert_model}, "
                f"got {cfg.bert_max_tokens}; leave it out for {limit}"
            )
        bridge = load_bridge(cfg, task, tokenizer, cfg.bert_max_tokens or limit, flags)
    except BertFusedError as error:
        raise BertFusedError(*errors, *error.errors) from error
    raise_all(errors)
    return bert, bridge


def locate_bert(name: str, task: Any) -> str:
    """Return the place of the BERT *name*.

    A name that begins with ``./`` is looked up in the task's data directory first, then in the working directory.
    An exported model names its BERT in this way: its directory is the data directory too, wherever it is moved.
    No name on the hub begins with a dot.

    Raises:
        BertFusedError: The name begins with ``./``, and neither directory has it.
    """
    if not name.startswith("./"):
        return os.path.expanduser(name)  # the shell leaves the ~ of --bert-model=~/DIR
    data = split_paths(task_settings(task)["data"])
    found = [path for path in (*(os.path.join(directory, name[2:]) for directory in data), name) if os.path.isdir(path)]
    if not found:
        raise BertFusedError(
            f"--bert-model {name}: neither the data directory {data[0]} nor the working directory has this "
            "directory; copy the whole directory of an exported model, and give it as the data directory "
            f"(with other data: --model-overrides \"{{'bert_model': 'MODEL_DIR/{name[2:]}'}}\")"
        )
    return found[0]


def describe_bert(model: Any, name: Any) -> str:
    """Return a line for the log about BERT: its name, parameters and layers, and how its input is made.

    Args:
        model: model with an encoder that reads BERT.
        name: name under which BERT was given.
    """
    encoder: Any = model.encoder
    bert, bridge = encoder.bert, encoder.bridge
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    layers = f"layer {bert.layers[0]} of {bert.depth}"
    if len(bert.layers) > 1:
        layers = f"layers {', '.join(map(str, bert.layers))} of {bert.depth} ({model.cfg.bert_layer})"
    tags = f"{len(bridge.tags)} tags left out, " if bridge.tags else ""
    return (
        f"BERT: {name}, {bert.describe_parameters()}, {trained:,} trained ones in all; {layers}; "
        f"subwords: {bridge.subword}, {tags}detokenisation: {bridge.detok}, at most {bridge.max_tokens} word pieces"
    )


def _vocabulary_errors(cfg: BertFlags, tokenizer: "PreTrainedTokenizerBase", bert: PretrainedBert) -> List[str]:
    largest, rows = max(tokenizer.get_vocab().values()), bert.model.get_input_embeddings().num_embeddings
    if largest < rows:
        return []
    return [
        f"--bert-model {cfg.bert_model}: the tokenizer has ids up to {largest}, but the model has only {rows} "
        "embeddings; take tokenizer and model from the same place"
    ]
