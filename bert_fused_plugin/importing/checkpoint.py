"""Reads checkpoints of bert-nmt, compares their BERT with a given one, and writes the imported checkpoint."""

import os
from argparse import Namespace
from pathlib import Path
from textwrap import shorten
from types import SimpleNamespace
from typing import Any, Dict, List

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from transformers import PreTrainedModel

from bert_fused_plugin.checkpoints.reading import read_saved
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.importing import Imported
from bert_fused_plugin.importing.flags import DEFAULTS
from bert_fused_plugin.importing.weights import bert_weights

_REMEDY = "give a checkpoint of bert-nmt, such as its checkpoint_best.pt"


def read_bert_nmt(path: Path) -> Dict[str, Any]:
    """Return the checkpoint of bert-nmt in the file *path*.

    Raises:
        BertFusedError: The file cannot be read, or it is not a checkpoint of bert-nmt.
    """
    checkpoint = read_saved(path, _REMEDY)
    if not isinstance(checkpoint.get("args"), Namespace):
        raise BertFusedError(
            f"{path} is no checkpoint of bert-nmt: it has no 'args', which checkpoints of fairseq 0.6 have; models of "
            "this package and of fairseq need no import"
        )
    if not any(key.startswith("bert_encoder.") or ".bert_attn." in key for key in checkpoint["model"]):
        raise BertFusedError(
            f"{path} is no checkpoint of bert-nmt: no weight is named bert_encoder.* or *.bert_attn.*; models of "
            "fairseq need no import, and --bert-warm-start lets a BERT-fused model begin with one"
        )
    return checkpoint


def bert_errors(path: Path, checkpoint: Dict[str, Any], place: Path, bert: PreTrainedModel) -> List[str]:
    """Return a sentence for each way in which *bert*, of the directory *place*, is not the BERT of the *checkpoint*.

    *path* is the file of the checkpoint.
    """
    flags = {**DEFAULTS, **vars(checkpoint["args"])}
    which = f"give the BERT that the model was trained with (args.bert_model_name {flags['bert_model_name']})"
    given = {key: value for key, value in bert.state_dict().items() if not key.startswith("pooler.")}
    saved = bert_weights(checkpoint["model"])
    depth, layer = bert.config.num_hidden_layers, flags["bert_output_layer"]
    errors = []
    if not -depth <= layer < depth:
        errors.append(f"{path}: args.bert_output_layer is {layer}, but --bert {place} has {depth} layers")
    if not saved:  # The checkpoint was stripped of BERT, so only the width is checked, when the model is built.
        return errors
    sizes = [{key: tuple(value.shape) for key, value in weights.items()} for weights in (given, saved)]
    other = sorted({key for key, _ in sizes[0].items() ^ sizes[1].items()})
    if other:
        seen = " and ".join(str(size.get(other[0], "missing")) for size in sizes)
        errors.append(
            f"--bert {place} is another model than the BERT of {path}: {len(other)} weights differ in "
            f"size, such as {other[0]} ({seen}); {which}"
        )
    elif not flags["finetune_bert"]:
        # A training in half precision has rounded the weights that it saved.
        gaps = {key: (given[key].to(saved[key].dtype) - saved[key]).abs().max().item() for key in saved}
        changed = [key for key, gap in gaps.items() if not gap <= 1e-6]
        if changed:
            errors.append(
                f"--bert {place} is not the BERT of {path}, which was not fine-tuned "
                f"(args.finetune_bert): {len(changed)} of {len(saved)} weights differ, such as {changed[0]} by up to "
                f"{gaps[changed[0]]:.2g}; {which}"
            )
    return errors


def check_imported(path: Path, imported: Imported, bert_model: Path) -> None:
    """Build the new model with the BERT in *bert_model*, and load its weights, to see that they fit together.

    Raises:
        BertFusedError: The weights do not fit the flags, which are those of the old checkpoint *path*.
    """
    task = SimpleNamespace(cfg=SimpleNamespace(source_lang=None))
    for side, name in (("encoder", "source_dictionary"), ("decoder", "target_dictionary")):
        dictionary = Dictionary()
        for i in range(len(imported.model.get(f"{side}.embed_tokens.weight", ())) - len(dictionary)):
            dictionary.add_symbol(f"symbol{i}")
        vars(task)[name] = dictionary
    args = Namespace(**{**vars(imported.args), "bert_model": os.path.abspath(bert_model)})
    try:
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
        model.load_state_dict(dict(imported.model), strict=True)
    except Exception as error:  # a damaged file can raise any exception
        reason = shorten(str(error), 600)
        raise BertFusedError(f"{path}: its args and its weights do not make one model [{reason}]") from error


def write_imported(imported: Imported, path: Path) -> None:
    """Write *imported* as a checkpoint of fairseq, without any state of the training."""
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    checkpoint = {"args": imported.args, "model": imported.model, "optimizer_history": [history]}
    torch.save({**checkpoint, "extra_state": {"train_iterator": {"epoch": 1}}, "last_optimizer_state": None}, path)
