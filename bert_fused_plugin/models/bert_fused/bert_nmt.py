"""From a checkpoint of the authors' own implementation, bert-nmt, to one of this package: flags and weights.

What their flags mean, where o is the attention beside that to BERT, and b that to BERT:
``encoder_ratio`` o + ``bert_ratio`` b, in training and in evaluation; with ``encoder_bert_dropout`` drop-net of
p_net = 2 ``encoder_bert_dropout_ratio``, and 1/2 o + 1/2 b in evaluation, whatever the ratios; with a closed gate
``encoder_ratio`` o, always.  Stacked layers, and those without attention to BERT, know none of these flags.
"""

import re
from argparse import Namespace
from collections import defaultdict
from dataclasses import dataclass, fields
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from fairseq.models.transformer.transformer_legacy import base_architecture
from torch import Tensor

from bert_fused_plugin.errors import raise_all
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig

Flags = Dict[str, Any]
Weights = Mapping[str, Tensor]

_SIDES = ("encoder", "decoder")
_BRANCH = {"encoder": "self_attn", "decoder": "encoder_attn"}  # what stands beside the attention to BERT
_BERT = "bert_encoder."

# their defaults, for checkpoints from before a flag was there
_DEFAULTS: Flags = {
    "arch": None,
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
    "adaptive_softmax_cutoff": None,
    "share_all_embeddings": False,
    "share_decoder_input_output_embed": False,
}
_ATTEND_BOTH = {"transformers2", "transformer_s2_iwslt_de_en", "transformer_s2_vaswani_wmt_en_de_big"}
_ATTEND_BOTH |= {"transformer_wmt_en_de"}  # unlike those with _big
_ATTEND_DECODER = {"transformer", "transformer_iwslt_de_en", "transformer_vaswani_wmt_en_de_big"}
_ATTEND_DECODER |= {"transformer_vaswani_wmt_en_fr_big", "transformer_wmt_en_de_big", "transformer_wmt_en_de_big_t2t"}
_KINDS = {("plain", "plain"), ("plain", "parallel"), ("parallel", "plain"), ("parallel", "parallel")}
_KINDS |= {("plain", "stacked")}

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(\w+)\..+")
_ATTENTION = re.compile(r"(.+_attn)\.(in|q|k|v)_proj_(weight|bias)")
_KNOWN = re.compile(
    r"bert_encoder\..+|(en|de)coder\.(version|embed_tokens\.weight|embed_positions\.(weights?|_float_tensor)"
    r"|layer_norm\.(weight|bias)|embed_out|project_(in|out)_dim\.weight|adaptive_softmax\..+"
    r"|layers\.\d+\.((self|encoder|bert)_attn\.(in_proj_(weight|bias)|[qkv]_proj_weight|out_proj\.(weight|bias))"
    r"|((self|encoder|bert)_attn_layer_norm|final_layer_norm|fc1|fc2)\.(weight|bias)))"
)


@dataclass
class Imported:
    """A checkpoint of this package, or of fairseq's own transformer where nothing attends to BERT."""

    args: Namespace
    model: Dict[str, Tensor]
    notes: List[str]  # what its user should know


def import_bert_nmt(args: Namespace, state: Weights, bert_model: str) -> Imported:
    """Return a checkpoint of bert-nmt as one of this package.

    Args:
        args: its flags.
        state: its weights.
        bert_model: the Hugging Face directory that the new checkpoint names.

    Raises:
        BertFusedError: it computes what this package cannot, or it is damaged.
    """
    flags: Flags = {**_DEFAULTS, **vars(args)}
    layers = _Layers.read(state)
    raise_all([*_layer_errors(flags, layers), *_flag_errors(flags), *_weight_errors(state)])
    if flags["bert_gates"] is not None and "parallel" in layers.kinds:
        # an encoder that does not attend to BERT may be the deeper one
        layers.gates[: len(flags["bert_gates"])] = [gate == 1 for gate in flags["bert_gates"]]
    return Imported(_new_args(flags, layers, bert_model), _new_weights(state, flags, layers), _notes(flags, layers))


def bert_weights(state: Weights) -> Dict[str, Tensor]:
    """Return the weights of BERT in *state*, by their Hugging Face names, without the pooler, which is never used."""
    found = {key[len(_BERT) :]: value for key, value in state.items() if key.startswith(_BERT)}
    return {key: value for key, value in found.items() if not key.startswith("pooler.")}


@dataclass
class _Layers:
    """Which layers of (encoder, decoder) attend to BERT."""

    depths: Tuple[int, ...]
    kinds: Tuple[str, ...]  # plain, parallel, stacked, or mixed ones, by the weights
    gates: List[bool]

    @classmethod
    def read(cls, state: Weights) -> "_Layers":
        modules: Dict[str, Dict[str, Set[str]]] = {side: defaultdict(set) for side in _SIDES}
        for match in filter(None, map(_LAYER.fullmatch, state)):
            modules[match[1]][match[2]].add(match[3])
        kind = {(False, False): "plain", (True, False): "parallel", (True, True): "stacked", (False, True): "mixed"}
        kinds = [
            {kind["bert_attn" in names, "bert_attn_layer_norm" in names] for names in modules[side].values()}
            for side in _SIDES
        ]
        depths = [len(modules[side]) for side in _SIDES]
        return cls(tuple(depths), tuple(k.pop() if len(k) == 1 else "mixed" for k in kinds), [True] * max(depths))

    @property
    def attend(self) -> Optional[str]:
        """``--bert-attend``; None where no layer attends to BERT."""
        sides = [s for s, d, k in zip(_SIDES, self.depths, self.kinds) if k != "plain" and any(self.gates[:d])]
        return "both" if len(sides) == 2 else sides[0] if sides else None

    def closed(self) -> Iterator[Tuple[str, int]]:
        """Yield side and number of each layer with attention to BERT behind a closed gate."""
        for side, depth, kind in zip(_SIDES, self.depths, self.kinds):
            yield from ((side, i) for i in range(depth) if kind == "parallel" and not self.gates[i])


def _layer_errors(flags: Flags, layers: _Layers) -> List[str]:
    """Say where the layers are none of bert-nmt's, or not those that the flags describe."""
    errors = []
    for side, depth in zip(_SIDES, layers.depths):
        if flags.get(f"{side}_layers") != depth:
            errors.append(f"args.{side}_layers is {flags.get(f'{side}_layers')}, but it has weights of {depth} layers")
    decoder = "plain" if flags["decoder_no_bert"] else "parallel"
    expected = layers.kinds if layers.kinds in _KINDS else ("parallel", decoder)  # for the names of forks
    if str(flags["arch"]).startswith("transformerstack"):
        expected = ("plain", "stacked")
    elif flags["arch"] in _ATTEND_BOTH | _ATTEND_DECODER:
        expected = ("parallel" if flags["arch"] in _ATTEND_BOTH else "plain", decoder)
    if layers.kinds != expected:
        errors.append(
            f"args.arch {flags['arch']} with decoder_no_bert {flags['decoder_no_bert']} should have "
            f"{' encoder layers and '.join(expected)} decoder layers (by their bert_attn and bert_attn_layer_norm), "
            f"but it has weights of {' encoder layers and '.join(layers.kinds)} ones; it is of a fork, or damaged"
        )
    for side, depth, kind in zip(_SIDES, layers.depths, layers.kinds):
        if kind == "parallel" and flags["bert_gates"] is not None and len(flags["bert_gates"]) != depth:
            errors.append(f"args.bert_gates must be one for each {side} layer, got {flags['bert_gates']}")
    return errors


def _flag_errors(flags: Flags) -> List[str]:
    """Name the flags that this package has no counterpart of; ignoring them would be silent."""
    known = {*_stock_names(), *_DEFAULTS, "encoder_embed_path", "decoder_embed_path"}
    errors = [
        f"args.{name} {value!r} is no flag of bert-nmt; it is of a fork, whose models cannot be imported"
        for name, value in flags.items()
        if value and name.startswith(("encoder_", "decoder_", "bert_")) and name not in known
    ]
    errors += [
        f"args.{side}_attention_heads is missing, and the weights do not tell it"
        for side in _SIDES
        if f"{side}_attention_heads" not in flags
    ]
    if flags["encoder_bert_dropout"] and not 0 <= flags["encoder_bert_dropout_ratio"] <= 0.5:
        errors.append(f"args.encoder_bert_dropout_ratio must be in [0, 0.5], got {flags['encoder_bert_dropout_ratio']}")
    return errors


def _weight_errors(state: Weights) -> List[str]:
    unknown = sorted(key for key in state if not _KNOWN.fullmatch(key))
    names = ", ".join(unknown[:6]) + (", ..." if len(unknown) > 6 else "")
    return [f"{len(unknown)} weights are of no model of bert-nmt but of a fork: {names}"] if unknown else []


def _stock_names() -> List[str]:
    """Return the flags that fairseq's transformer has too."""
    parts = (("encoder_", EncDecBaseConfig), ("decoder_", DecoderConfig), ("", TransformerConfig))
    names = [prefix + field.name for prefix, part in parts for field in fields(part)]
    # the embeddings are in the checkpoint, their files may be gone
    return [name for name in names if name not in _SIDES and not name.endswith("_embed_path")]


def _new_args(flags: Flags, layers: _Layers, bert_model: str) -> Namespace:
    names = (*_stock_names(), "label_smoothing", "source_lang", "target_lang", "left_pad_source", "left_pad_target")
    args = Namespace(**{name: flags[name] for name in names if name in flags}, arch="transformer", task="translation")
    args.share_decoder_input_output_embed |= flags["share_all_embeddings"]
    if flags["adaptive_softmax_cutoff"] is not None:
        # a string fairseq would evaluate as Python, and of tied embeddings it would want output weights
        args.adaptive_softmax_cutoff = [int(i) for i in re.findall(r"\d+", str(flags["adaptive_softmax_cutoff"]))]
        args.share_all_embeddings = args.share_decoder_input_output_embed = False
    args.criterion = flags["criterion"] if flags["criterion"] in CRITERION_REGISTRY else "label_smoothed_cross_entropy"
    base_architecture(args)  # whose defaults are those of bert-nmt
    if layers.attend is None:
        return args
    if args.criterion == "label_smoothed_cross_entropy":
        args.criterion = f"bert_fused_{args.criterion}"  # the same formula, which fairseq has changed
    values = {f.name: f.default for f in fields(BertFusedConfig) if f.name.startswith("bert_")}
    values.update(_bert_flags(flags, layers), bert_model=bert_model, bert_attend=layers.attend)
    vars(args).update(values, arch="bert_fused", task="bert_fused_translation")
    return args


def _bert_flags(flags: Flags, layers: _Layers) -> Flags:
    """Return this package's flags for the fusion."""
    values: Flags = {
        "bert_detok": "moses",  # as their makedataforbert.sh
        "bert_mask_special_tokens": bool(flags["mask_cls_sep"]),
    }
    if flags["finetune_bert"]:
        values.update(bert_finetune=True, bert_lr_factor=1.0)
    if "stacked" in layers.kinds:  # which in training always read the last layer
        order = "bert-first" if flags["bert_first"] else "encoder-first"
        return {**values, "bert_fusion": "stacked", "bert_stack_order": order}
    layer = int(flags["bert_output_layer"])  # counted without the embeddings
    values["bert_layer"] = str(layer + 1 if layer >= 0 else layer)
    has_drop_net = flags["encoder_bert_dropout"]
    weights = (0.5, 0.5) if has_drop_net else (float(flags["encoder_ratio"]), float(flags["bert_ratio"]))
    values["bert_branch_weights"] = ",".join(map(repr, weights))
    if not all(layers.gates):
        values["bert_gates"] = ",".join(str(int(gate)) for gate in layers.gates)
    p_net = 2 * flags["encoder_bert_dropout_ratio"] if has_drop_net and not flags["encoder_bert_mixup"] else 0.0
    return {**values, "bert_drop_net": p_net}


def _new_weights(state: Weights, flags: Flags, layers: _Layers) -> Dict[str, Tensor]:
    """Return the weights in single precision, by their names of today."""
    closed = list(layers.closed())
    unused = tuple(f"{side}.layers.{i}.bert_attn." for side, i in closed)
    scaled = tuple(f"{side}.layers.{i}.{_BRANCH[side]}.out_proj." for side, i in closed)
    result: Dict[str, Tensor] = {}
    for key, tensor in state.items():
        if key.startswith((_BERT, *unused)):
            continue
        value = tensor.detach().float() if tensor.is_floating_point() else tensor
        if key.startswith(scaled):
            value = flags["encoder_ratio"] * value
        attention = _ATTENTION.fullmatch(key)
        if attention is None:
            result[key] = value
            continue
        name, part, kind = attention.groups()
        pieces = zip("qkv", value.chunk(3)) if part == "in" else [(part, value)]
        result.update({f"{name}.{p}_proj.{kind}": piece.clone() for p, piece in pieces})

    _bring_up_to_date(result)
    if flags["share_all_embeddings"] or flags["share_decoder_input_output_embed"]:
        if "decoder.embed_tokens.weight" in result and flags["adaptive_softmax_cutoff"] is None:
            result["decoder.output_projection.weight"] = result["decoder.embed_tokens.weight"]
    elif "decoder.embed_out" in result:
        result["decoder.output_projection.weight"] = result.pop("decoder.embed_out")
    if flags["finetune_bert"] and layers.attend is not None:
        result.update({f"encoder.bert.model.{key}": value.float() for key, value in bert_weights(state).items()})
        result["encoder.bert.lr_factor"] = torch.tensor(1.0)
    return result


def _bring_up_to_date(state: Dict[str, Tensor]) -> None:
    """Write versions and sinusoidal positions as fairseq does today."""
    for side in _SIDES:
        # the final norm came with version 2; a decoder of version 2 has it too, which fairseq has forgotten
        version = float(state.get(f"{side}.version", torch.ones(1)))
        state[f"{side}.version"] = torch.tensor([3.0 if version >= 2 else 1.0])
        for name in ("weights", "_float_tensor"):  # of sinusoidal positions, which are no parameters
            if state.pop(f"{side}.embed_positions.{name}", None) is not None:
                state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)


def _notes(flags: Flags, layers: _Layers) -> List[str]:
    notes = []
    if layers.attend is None:
        notes.append(
            "no layer attends to BERT, so this is fairseq's own transformer now: --arch transformer, which needs "
            "neither BERT nor this package"
        )
    elif "stacked" in layers.kinds and flags["bert_output_layer"] != -1:
        notes.append(
            f"args.bert_output_layer {flags['bert_output_layer']} is not carried over: stacked models were trained on "
            "BERT's last layer whatever it said (only generate.py of bert-nmt heeded it)"
        )
    if "parallel" in layers.kinds and flags["encoder_bert_mixup"] and flags["encoder_bert_dropout"]:
        notes.append(
            "training with args.encoder_bert_mixup is not carried over: further training would use weights 1/2 and "
            "1/2, as evaluation does"
        )
    if any(layers.closed()) and flags["encoder_ratio"] != 1:
        notes.append("args.encoder_ratio of the layers with a closed gate is now part of their weights")
    return notes
