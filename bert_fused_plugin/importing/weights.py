"""Translates the weights of bert-nmt into those of this package."""

import re
from typing import Any, Dict, List, Mapping

import torch
from torch import Tensor

from bert_fused_plugin.importing.layers import SIDES, Layers

Weights = Mapping[str, Tensor]

_NMT_BRANCH = {"encoder": "self_attn", "decoder": "encoder_attn"}
_BERT = "bert_encoder."
_ATTENTION = re.compile(r"(.+_attn)\.(in|q|k|v)_proj_(weight|bias)")
_KNOWN = re.compile(
    r"bert_encoder\..+|(en|de)coder\.(version|embed_tokens\.weight|embed_positions\.(weights?|_float_tensor)"
    r"|layer_norm\.(weight|bias)|embed_out|project_(in|out)_dim\.weight|adaptive_softmax\..+"
    r"|layers\.\d+\.((self|encoder|bert)_attn\.(in_proj_(weight|bias)|[qkv]_proj_weight|out_proj\.(weight|bias))"
    r"|((self|encoder|bert)_attn_layer_norm|final_layer_norm|fc1|fc2)\.(weight|bias)))"
)


def bert_weights(state: Weights) -> Dict[str, Tensor]:
    """Return the weights of BERT in *state* by their Hugging Face names, without the pooler, which is never used."""
    found = {key[len(_BERT) :]: value for key, value in state.items() if key.startswith(_BERT)}
    return {key: value for key, value in found.items() if not key.startswith("pooler.")}


def weight_errors(state: Weights) -> List[str]:
    """Return a sentence if there are weights that no model of bert-nmt has."""
    unknown = sorted(key for key in state if not _KNOWN.fullmatch(key))
    names = ", ".join(unknown[:6]) + (", ..." if len(unknown) > 6 else "")
    return [f"{len(unknown)} weights belong to no model of bert-nmt but to a fork: {names}"] if unknown else []


def new_weights(state: Weights, flags: Dict[str, Any], layers: Layers) -> Dict[str, Tensor]:
    """Return the weights in single precision, by their present names."""
    closed = list(layers.closed())
    unused = tuple(f"{side}.layers.{i}.bert_attn." for side, i in closed)
    scaled = tuple(f"{side}.layers.{i}.{_NMT_BRANCH[side]}.out_proj." for side, i in closed)
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
    """Change *state* in place: write versions and sinusoidal positions as fairseq does today."""
    for side in SIDES:
        # The final norm came with version 2; fairseq mistakes a decoder of version 2 for one without it.
        version = float(state.get(f"{side}.version", torch.ones(1)))
        state[f"{side}.version"] = torch.tensor([3.0 if version >= 2 else 1.0])
        for name in ("weights", "_float_tensor"):  # of sinusoidal positions, which are not parameters
            if state.pop(f"{side}.embed_positions.{name}", None) is not None:
                state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
