"""Builds the source of BERT for a model, as the flags of the model and of its task say."""

import os
import sysconfig
from argparse import Namespace
from typing import Any, Dict, List, Mapping, Optional

from fairseq.data import encoders
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import split_paths

from bert_fused_plugin.bert.finetuned_bert import FinetunedBert
from bert_fused_plugin.bert.flags import BertFlags, parse_options
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
from bert_fused_plugin.bert.source import BertSource
from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.subwords import SUBWORDS, join_by_bpe
from bert_fused_plugin.data.tags import tags_named, tags_of_task
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.fairseq_settings import task_settings


def load_source(cfg: BertFlags, task: Any, errors: List[str], bpe: Dict[str, Any]) -> Optional[BertSource]:
    """Load the encoder and the tokenizer that *cfg* names, if any, with the bridge between fairseq's *task* and them.

    Under fairseq's own tasks, which know nothing of BERT, the model makes BERT's input by this bridge.  The task of
    this package takes the bridge from the model.  *bpe* has the flags of fairseq's ``--bpe``, given with the model's.

    Raises:
        BertFusedError: There are *errors* of other flags, or BERT cannot be used as the flags say.
    """
    if task_settings(task).get("left_pad_target"):
        errors.append("--left-pad-target must be False, got True: the decoder would read the padding; leave it out")
    if cfg.bert_model is None:
        raise_all(errors)
        return None
    if task_settings(task).get("load_alignments"):
        errors.append("--load-alignments: models with BERT learn from no alignments; leave it out")
    try:
        name, layers = locate_bert(cfg.bert_model, task), str(cfg.bert_layer)
        options = parse_options(cfg.bert_tokenizer_options)
        tokenizer = load_tokenizer(name, options)
        train = {"last_layers": cfg.bert_finetune_layers, "lr_factor": cfg.bert_lr_factor} if cfg.bert_finetune else {}
        bert = (FinetunedBert if cfg.bert_finetune else FrozenBert).from_pretrained(name, layers, **train)
        limit = min(bert.max_positions, int(tokenizer.model_max_length))
        largest = max(tokenizer.get_vocab().values())
        if largest >= bert.num_symbols:
            errors.append(
                f"--bert-model {name}: the tokenizer has ids up to {largest}, but the model has only "
                f"{bert.num_symbols} embeddings; take tokenizer and model from the same place"
            )
        if cfg.bert_max_tokens is not None and cfg.bert_max_tokens > limit:
            positions = f"{limit}, the positions of BERT"
            errors.append(f"--bert-max-tokens must be at most {positions}, got {cfg.bert_max_tokens}; leave it out")
        bridge = load_bridge(cfg, task, tokenizer, cfg.bert_max_tokens or limit, bpe)
        if hasattr(tokenizer, "src_lang") and tokenizer.unk_token_id in bridge.special_tokens:
            errors.append(
                f"--bert-tokenizer-options: the tokenizer of --bert-model {name} does not know the language "
                f"{tokenizer.src_lang}; give the code by which the encoder knows it, such as src_lang=vie_Latn for NLLB"
            )
    except BertFusedError as error:
        raise BertFusedError(*errors, *error.errors) from error
    raise_all(errors)
    return BertSource(bert, bridge, cfg)


def load_bridge(cfg: BertFlags, task: Any, tokenizer: Any, max_tokens: int, bpe: Dict[str, Any]) -> DictionaryBridge:
    """Return the bridge from the source dictionary of *task* to *tokenizer*, for at most *max_tokens* word pieces.

    Raises:
        BertFusedError: the text for BERT cannot be made as the flags say, and the task has no raw text for it.
    """
    dictionary, settings = task.source_dictionary, task_settings(task)
    bridge = DictionaryBridge(
        dictionary,
        tokenizer,
        max_tokens=max_tokens,
        subword=str(cfg.bert_subword),
        detok=str(cfg.bert_detok),
        # a multilingual task has none in training, and may have one in translation
        lang=(settings.get("source_lang") if isinstance(task, TranslationTask) else None) or "en",
        context=cfg.bert_context,
        tags=[*tags_named(cfg.bert_strip_tags, dictionary), *tags_of_task(task)],
    )
    kind = bpe.get("bpe") or bpe.get("_name")  # of the command line, or of a YAML file
    if kind in SUBWORDS[bridge.subword].bpe:
        files = {name: _in_data(value, settings) if isinstance(value, str) else value for name, value in bpe.items()}
        try:
            join, fingerprint = join_by_bpe(encoders.build_bpe(Namespace(**{**files, "bpe": kind})), dictionary)
        except Exception as error:  # of files, of their formats, and of the network that the default of gpt2 needs
            raise BertFusedError(
                f"--bpe {kind}: its files do not turn the numbers of the source dictionary into text ({error}); give "
                "the files that the training data was split with (at generation in --model-overrides)"
            ) from error
        bridge.join_by(join, f"{kind} with the files {fingerprint}")
    if bridge.problem and settings.get("bert_text") is None:
        raise BertFusedError(bridge.problem)
    return bridge


def describe_bert(model: Any, name: Any) -> str:
    """Return a line for the log about the BERT of *model*, given as *name*: parameters, layers, and how it is fed."""
    bert, bridge = model.encoder.source.bert, model.encoder.source.bridge
    parameters = f"{bert.num_parameters:,} frozen parameters (not in checkpoints)"
    if bert.saves_weights:
        parameters = f"{bert.num_parameters - bert.num_trained:,} frozen and {bert.num_trained:,} trained parameters"
    in_all = sum(p.numel() for p in model.parameters() if p.requires_grad)
    layers = f"layer {bert.layers[0]} of {bert.depth}"
    if len(bert.layers) > 1:
        layers = f"layers {', '.join(map(str, bert.layers))} of {bert.depth} ({model.cfg.bert_layer})"
    tags = f"{len(bridge.tags)} tags left out, " if bridge.tags else ""
    return (
        f"BERT: {name}, {parameters}, {in_all:,} trained ones in all; {layers}; "
        f"subwords: {bridge.subword}, {tags}detokenisation: {bridge.detok}, at most {bridge.max_tokens} word pieces"
    )


def locate_bert(name: str, task: Any) -> str:
    """Return the place of the BERT *name*.

    Raises:
        BertFusedError: The name begins with ``./``, and neither the data directory nor the working directory has it.
    """
    if not name.startswith("./"):
        path = os.path.expanduser(name)  # the shell leaves the ~ of --bert-model=~/DIR
        # a BERT from the package index may lie in another environment than in training
        _, in_packages, rest = path.rpartition("/site-packages/")
        here = os.path.join(sysconfig.get_path("purelib"), rest)
        return here if in_packages and os.path.isdir(here) and not os.path.isdir(path) else path
    # an exported model names its BERT so: its directory is the data directory too, wherever it is moved
    settings = task_settings(task)
    directory = _in_data(name, settings)
    if not os.path.isdir(directory):
        raise BertFusedError(
            f"--bert-model {name}: neither the data directory {split_paths(settings['data'])[0]} nor the working "
            "directory has this directory; check its name, or copy an exported model as a whole and give it as the "
            f"data directory (with other data: --model-overrides \"{{'bert_model': 'MODEL_DIR/{name[2:]}'}}\")"
        )
    return directory


def _in_data(name: str, settings: Mapping[str, Any]) -> str:
    """Return *name*, which is taken from the task's data directory if it begins with ``./`` and if it is there."""
    folders = split_paths(settings.get("data") or "") if name.startswith("./") else []
    return next(filter(os.path.exists, (os.path.join(folder, name[2:]) for folder in folders)), name)
