"""Reads checkpoints of bert-nmt, converts them, compares their BERT with a given one, and writes the new checkpoint."""

from argparse import Namespace
from pathlib import Path
from textwrap import shorten
from types import SimpleNamespace
from typing import Any, Dict, List, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor
from transformers import PreTrainedModel

from bert_fused_lab.importing.flags import DEFAULTS, Flags, flag_errors, new_args
from bert_fused_lab.importing.weights import BERT, Layers, Weights, bert_weights, new_weights
from bert_fused_plugin.checkpoints.reading import diverged, read_saved
from bert_fused_plugin.checkpoints.record import BERT_RECORD, OF_DATA, SETTINGS_RECORD, JsonRecord
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.models.bert_fused import BertFusedModel

_REMEDY = "give a checkpoint of bert-nmt, such as its checkpoint_best.pt"


class Imported(NamedTuple):
    """A checkpoint of this package, or of fairseq's own transformer if no layer attends to BERT."""

    args: Namespace
    model: Dict[str, Tensor]


def read_bert_nmt(path: Path) -> Dict[str, Any]:
    """Return the checkpoint of bert-nmt in the file *path*.

    Raises:
        BertFusedError: The file cannot be read, or it is not a checkpoint of bert-nmt.
    """
    checkpoint = read_saved(path, _REMEDY)
    names_bert = any(key.startswith("bert_encoder.") or ".bert_attn." in key for key in checkpoint["model"])
    if not isinstance(checkpoint.get("args"), Namespace) or not names_bert:
        raise BertFusedError(
            f"{path} is no checkpoint of bert-nmt, which has 'args' and weights bert_encoder.* or *.bert_attn.*; "
            "models of this package and of fairseq need no import, but --bert-warm-start can begin with them"
        )
    raise_all(diverged(path, checkpoint["model"]))
    return checkpoint


def import_bert_nmt(args: Namespace, state: Weights, bert_model: str) -> Imported:
    """Convert flags and weights of bert-nmt; the new checkpoint names the Hugging Face directory *bert_model*.

    Raises:
        BertFusedError: There are flags that cannot be translated.
    """
    flags: Flags = {**DEFAULTS, **vars(args)}
    if f"{BERT}embeddings.position_ids" in state:  # of the branch update-20-10, which always reads the last layer
        flags["bert_output_layer"] = -1
    raise_all(flag_errors(flags))
    layers = Layers.read(state, flags["bert_gates"])
    return Imported(new_args(flags, layers, bert_model), new_weights(state, flags, layers))


def bert_errors(path: Path, checkpoint: Dict[str, Any], place: Path, bert: PreTrainedModel) -> List[str]:
    """Return a sentence if *bert*, of the directory *place*, is not the BERT of the *checkpoint*; else none.

    *path* is the file of the checkpoint.
    """
    flags = {**DEFAULTS, **vars(checkpoint["args"])}
    state = {f"{BERT}{key}": value for key, value in bert.state_dict().items()}
    of_bert, saved = bert_weights(state), bert_weights(checkpoint["model"])
    differences = []
    for key in sorted({*of_bert, *saved} if saved else ()):  # of a checkpoint without BERT only the width is checked
        sizes = [tuple(weights[key].shape) if key in weights else "missing" for weights in (of_bert, saved)]
        if sizes[0] != sizes[1]:
            differences.append(f"{key} ({sizes[0]} and {sizes[1]})")
        elif not flags["finetune_bert"]:
            # a training in half precision has rounded the weights that it saved, and may have averaged them in single
            rounded = (of_bert[key].to(dtype).float() for dtype in (saved[key].dtype, torch.half))
            gap = min((weight - saved[key].float()).abs().max().item() for weight in rounded)
            differences += [] if gap <= 1e-6 else [f"{key} by up to {gap:.2g}"]
    return [
        f"--bert {place} is not the BERT of {path}: {len(differences)} of {len(saved)} weights differ, such as "
        f"{difference}; give the BERT that the model was trained with (args.bert_model_name {flags['bert_model_name']})"
        for difference in differences[:1]
    ]


def recorded_and_checked(path: Path, imported: Imported) -> Imported:
    """Build the new model, and load its weights, to see that they fit together; return *imported* with its records.

    They lack the settings and the dictionaries that come with the data, which is not here.

    Raises:
        BertFusedError: The weights do not fit the flags, which are those of the old checkpoint *path*.
    """
    task = SimpleNamespace(cfg=SimpleNamespace(source_lang=None))
    for side, name in (("encoder", "source_dictionary"), ("decoder", "target_dictionary")):
        dictionary = Dictionary()
        for i in range(len(imported.model.get(f"{side}.embed_tokens.weight", ())) - len(dictionary)):
            dictionary.add_symbol(f"symbol{i}")
        vars(task)[name] = dictionary
    args = Namespace(**vars(imported.args))
    try:
        model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
        model.load_state_dict(dict(imported.model), strict=True)
    except Exception as error:  # a damaged file can raise any exception
        reason = shorten(str(error), 600)
        raise BertFusedError(
            f"{path}: its args and its weights do not make one model, so it is of a fork of bert-nmt, or damaged "
            f"[{reason}]"
        ) from error
    if not isinstance(model, BertFusedModel):
        return imported
    settings, bert = model.settings_record.content, model.encoder.source.record.content
    of_bert = {name: value for name, value in bert["settings"].items() if name not in OF_DATA}
    records = {
        SETTINGS_RECORD: JsonRecord({kind: settings[kind] for kind in ("computed", "noted")}).text,
        BERT_RECORD: JsonRecord({**bert, "settings": of_bert}).text,
    }
    return imported._replace(model={**imported.model, **records})


def write_imported(imported: Imported, path: Path) -> None:
    """Write *imported* as a checkpoint of fairseq, without any state of the training."""
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    checkpoint = {"args": imported.args, "model": imported.model, "optimizer_history": [history]}
    torch.save({**checkpoint, "extra_state": {"train_iterator": {"epoch": 1}}, "last_optimizer_state": None}, path)
