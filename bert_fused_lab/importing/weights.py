"""Translates the weights of bert-nmt into those of this package, and finds which layers attend to BERT."""

import re
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

SIDES = ("encoder", "decoder")
Weights = Mapping[str, Tensor]

_NMT_BRANCH = {"encoder": "self_attn", "decoder": "encoder_attn"}
BERT = "bert_encoder."
_ATTENTION = re.compile(r"(.+_attn)\.(in|q|k|v)_proj_(weight|bias)")
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(\w+)\..+")


@dataclass
class Layers:
    """The layers of encoder and decoder, in this order."""

    depths: Tuple[int, ...]
    kinds: Tuple[str, ...]  # "plain" without attention to BERT, "parallel" or "stacked"
    gates: List[bool]  # whether the layers of each number attend to BERT

    @classmethod
    def read(cls, state: Weights, gates: Optional[List[int]]) -> "Layers":
        """Return the layers that the weights *state* have, whose *gates* are all open if they are None."""
        parts = [match.groups() for match in map(_LAYER.fullmatch, state) if match]
        names = [{name for which, _, name in parts if which == side} for side in SIDES]
        depths = tuple(len({number for which, number, _ in parts if which == side}) for side in SIDES)
        kinds = tuple(
            "stacked" if "bert_attn_layer_norm" in modules else "parallel" if "bert_attn" in modules else "plain"
            for modules in names
        )
        layers = cls(depths, kinds, [True] * max(depths))
        if gates is not None and "parallel" in kinds:
            # An encoder that does not attend to BERT may be deeper than the decoder.
            layers.gates[: len(gates)] = [gate == 1 for gate in gates]
        return layers

    @property
    def attend(self) -> Optional[str]:
        """The value of ``--bert-attend``, or None if no layer attends to BERT."""
        sides = [s for s, d, k in zip(SIDES, self.depths, self.kinds) if k != "plain" and any(self.gates[:d])]
        return "both" if len(sides) == 2 else sides[0] if sides else None

    def closed(self) -> Iterator[Tuple[str, int]]:
        """Yield side and number of each layer whose attention to BERT is behind a closed gate."""
        for side, depth, kind in zip(SIDES, self.depths, self.kinds):
            yield from ((side, i) for i in range(depth) if kind == "parallel" and not self.gates[i])


def bert_weights(state: Weights) -> Dict[str, Tensor]:
    """Return the weights of BERT in *state* by their Hugging Face names.

    The pooler is left out, which is never used, and tables of numbers, which transformers 3 saved.
    """
    weights = {key[len(BERT) :]: value for key, value in state.items() if key.startswith(BERT)}
    unused = re.compile(r"pooler\..*|embeddings\.(position|token_type)_ids")
    return {key: value for key, value in weights.items() if not unused.fullmatch(key)}


def new_weights(state: Weights, flags: Dict[str, Any], layers: Layers) -> Dict[str, Tensor]:
    """Return the weights in single precision, by their present names."""
    closed = list(layers.closed())
    unused = tuple(f"{side}.layers.{i}.bert_attn." for side, i in closed)
    scaled = tuple(f"{side}.layers.{i}.{_NMT_BRANCH[side]}.out_proj." for side, i in closed)
    result: Dict[str, Tensor] = {}
    for key, tensor in state.items():
        if key.startswith((BERT, *unused)):
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

    for side in SIDES:
        # The final norm came with version 2; fairseq mistakes a decoder of version 2 for one without it.
        version = float(result.get(f"{side}.version", torch.ones(1)))
        result[f"{side}.version"] = torch.tensor([3.0 if version >= 2 else 1.0])
    if flags["finetune_bert"] and layers.attend is not None:
        result.update({f"encoder.bert.model.{key}": value.float() for key, value in bert_weights(state).items()})
        result["encoder.bert.lr_factor"] = torch.tensor(1.0)
    return result
