"""Converts a checkpoint of the authors' own implementation, bert-nmt, into one of this package.

Their flags have these meanings, where nmt and bert are the outputs of the two branches of a layer:

- A layer computes ``encoder_ratio`` nmt + ``bert_ratio`` bert, in training and in evaluation.
- With ``encoder_bert_dropout`` it has drop-net of p_net = 2 ``encoder_bert_dropout_ratio`` in training, and it computes
  1/2 nmt + 1/2 bert in evaluation, whatever the ratios.
- With a closed gate it always computes ``encoder_ratio`` nmt.

Stacked layers, and those without attention to BERT, use none of these flags.
"""

from argparse import Namespace
from dataclasses import dataclass
from typing import Dict, List

from torch import Tensor

from bert_fused_plugin.errors import raise_all
from bert_fused_plugin.importing.flags import DEFAULTS, Flags, flag_errors, new_args
from bert_fused_plugin.importing.layers import Layers, layer_errors
from bert_fused_plugin.importing.weights import Weights, new_weights, weight_errors


@dataclass
class Imported:
    """A checkpoint of this package, or of fairseq's own transformer if no layer attends to BERT.

    Attributes:
        args: flags.
        model: weights.
        notes: sentences about the conversion that the user should read.
    """

    args: Namespace
    model: Dict[str, Tensor]
    notes: List[str]


def import_bert_nmt(args: Namespace, state: Weights, bert_model: str) -> Imported:
    """Return a checkpoint of bert-nmt as a checkpoint of this package.

    Args:
        args: flags of bert-nmt.
        state: weights of bert-nmt.
        bert_model: Hugging Face directory that the new checkpoint names.

    Raises:
        BertFusedError: The model computes something that this package cannot, or the checkpoint is damaged.
    """
    flags: Flags = {**DEFAULTS, **vars(args)}
    layers = Layers.read(state)
    raise_all([*layer_errors(flags, layers), *flag_errors(flags), *weight_errors(state)])
    if flags["bert_gates"] is not None and "parallel" in layers.kinds:
        # An encoder that does not attend to BERT may be deeper than the decoder.
        layers.gates[: len(flags["bert_gates"])] = [gate == 1 for gate in flags["bert_gates"]]
    return Imported(new_args(flags, layers, bert_model), new_weights(state, flags, layers), _notes(flags, layers))


def _notes(flags: Flags, layers: Layers) -> List[str]:
    """Return sentences about what changes with the conversion."""
    notes = []
    if layers.attend is None:
        notes.append(
            "no layer attends to BERT, so this is now fairseq's own transformer (--arch transformer), which needs "
            "neither BERT nor this package"
        )
    elif "stacked" in layers.kinds and flags["bert_output_layer"] != -1:
        notes.append(
            f"args.bert_output_layer {flags['bert_output_layer']} is not carried over: stacked models were trained on "
            "BERT's last layer independently of it (only generate.py of bert-nmt used it)"
        )
    if "parallel" in layers.kinds and flags["encoder_bert_mixup"] and flags["encoder_bert_dropout"]:
        notes.append(
            "training with args.encoder_bert_mixup is not carried over: further training would use weights 1/2 and "
            "1/2, as evaluation does"
        )
    if any(layers.closed()) and flags["encoder_ratio"] != 1:
        notes.append("args.encoder_ratio of the layers with a closed gate is now part of their weights")
    return notes
