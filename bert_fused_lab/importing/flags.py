"""Translates the flags of bert-nmt into those of this package."""

from argparse import Namespace
from dataclasses import fields
from typing import Any, Dict, List

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from fairseq.models.transformer.transformer_legacy import base_architecture

from bert_fused_lab.importing.weights import SIDES, Layers
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig

Flags = Dict[str, Any]

# the defaults of bert-nmt, for checkpoints that are older than a flag
DEFAULTS: Flags = {
    "bert_model_name": None,
    "bert_out_dim": None,
    "bert_ratio": 1.0,
    "bert_gates": None,
    "bert_first": True,
    "bert_output_layer": -1,
    "mask_cls_sep": False,
    "finetune_bert": False,
    "encoder_ratio": 1.0,
    "encoder_bert_dropout": False,
    "encoder_bert_dropout_ratio": 0.25,
    "encoder_bert_mixup": False,
    "decoder_no_bert": False,
    "criterion": "label_smoothed_cross_entropy",
    "label_smoothing": 0.0,
    "share_all_embeddings": False,
    "share_decoder_input_output_embed": False,
}


def new_args(flags: Flags, layers: Layers, bert_model: str) -> Namespace:
    """Return the flags for this package, or for fairseq if no layer attends to BERT."""
    names = (*_stock_names(), "label_smoothing", "source_lang", "target_lang", "left_pad_source", "left_pad_target")
    args = Namespace(**{name: flags[name] for name in names if name in flags}, arch="transformer", task="translation")
    args.share_decoder_input_output_embed |= flags["share_all_embeddings"]
    args.criterion = flags["criterion"] if flags["criterion"] in CRITERION_REGISTRY else "label_smoothed_cross_entropy"
    base_architecture(args)  # its defaults are those of bert-nmt
    if layers.attend is None:
        return args
    if args.criterion == "label_smoothed_cross_entropy":
        args.criterion = f"bert_fused_{args.criterion}"  # has the formula of bert-nmt; fairseq has changed its own
    values = {f.name: f.default for f in fields(BertFusedConfig) if f.name.startswith("bert_")}
    values.update(_bert_flags(flags, layers), bert_model=bert_model, bert_attend=layers.attend)
    vars(args).update(values, arch="bert_fused", task="bert_fused_translation")
    return args


def flag_errors(flags: Flags) -> List[str]:
    """Return a sentence for each flag that this package cannot translate, because it must not be ignored silently."""
    known = {*_stock_names(), *DEFAULTS, "encoder_embed_path", "decoder_embed_path"}
    unsupported = "args.adaptive_softmax_cutoff is set; models with an adaptive softmax cannot be imported"
    return ([unsupported] if flags.get("adaptive_softmax_cutoff") else []) + [
        f"args.{name} {value!r} is no flag of bert-nmt; it comes from a fork, whose models cannot be imported"
        for name, value in flags.items()
        if value and name.startswith(("encoder_", "decoder_", "bert_")) and name not in known
    ]


def _bert_flags(flags: Flags, layers: Layers) -> Flags:
    """Return this package's flags for the fusion."""
    values: Flags = {
        "bert_detok": "moses",  # as makedataforbert.sh of bert-nmt does
        "bert_mask_special_tokens": bool(flags["mask_cls_sep"]),
    }
    if flags["finetune_bert"]:
        values.update(bert_finetune=True, bert_lr_factor=1.0)
    if "stacked" in layers.kinds:  # in training these always read the last layer
        order = "bert-first" if flags["bert_first"] else "encoder-first"
        return {**values, "bert_fusion": "stacked", "bert_stack_order": order}
    layer = int(flags["bert_output_layer"])  # bert-nmt does not count the embeddings
    values["bert_layer"] = str(layer + 1 if layer >= 0 else layer)
    has_drop_net = flags["encoder_bert_dropout"]
    weights = (0.5, 0.5) if has_drop_net else (float(flags["encoder_ratio"]), float(flags["bert_ratio"]))
    values["bert_branch_weights"] = ",".join(map(repr, weights))
    if not all(layers.gates):
        values["bert_gates"] = ",".join(str(int(gate)) for gate in layers.gates)
    p_net = 2 * flags["encoder_bert_dropout_ratio"] if has_drop_net and not flags["encoder_bert_mixup"] else 0.0
    return {**values, "bert_drop_net": p_net}


def _stock_names() -> List[str]:
    """Return the names of the flags that fairseq's transformer has too."""
    parts = (("encoder_", EncDecBaseConfig), ("decoder_", DecoderConfig), ("", TransformerConfig))
    names = [prefix + field.name for prefix, part in parts for field in fields(part)]
    # The embeddings are in the checkpoint, and their files may no longer exist.
    return [name for name in names if name not in SIDES and not name.endswith("_embed_path")]
