"""Which layers of a bert-nmt checkpoint attend to BERT, as its weights and gates say."""

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from torch import Tensor

SIDES = ("encoder", "decoder")

# the architectures of bert-nmt whose encoder and decoder, or only whose decoder, attends to BERT
_BOTH = re.compile("transformers2|transformer_s2_(iwslt_de_en|vaswani_wmt_en_de_big)|transformer_wmt_en_de")
_DECODER = re.compile("transformer(_iwslt_de_en|_vaswani_wmt_en_(de|fr)_big|_wmt_en_de_big(_t2t)?)?")
_KINDS = {*product(("plain", "parallel"), repeat=2), ("plain", "stacked")}

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(\w+)\..+")


@dataclass
class Layers:
    """The kinds of the layers, each as a pair for encoder and decoder.

    Attributes:
        depths: numbers of layers.
        kinds: ``plain``, ``parallel`` or ``stacked`` if all layers of a side are so by their weights, else ``mixed``.
        gates: whether the layers of each number attend to BERT.
    """

    depths: Tuple[int, ...]
    kinds: Tuple[str, ...]
    gates: List[bool]

    @classmethod
    def read(cls, state: Mapping[str, Tensor]) -> "Layers":
        """Return the layers that the weights *state* have."""
        modules: Dict[str, Dict[str, Set[str]]] = {side: defaultdict(set) for side in SIDES}
        for match in filter(None, map(_LAYER.fullmatch, state)):
            modules[match[1]][match[2]].add(match[3])
        kind = {(False, False): "plain", (True, False): "parallel", (True, True): "stacked", (False, True): "mixed"}
        kinds = [
            {kind["bert_attn" in names, "bert_attn_layer_norm" in names] for names in modules[side].values()}
            for side in SIDES
        ]
        depths = [len(modules[side]) for side in SIDES]
        return cls(tuple(depths), tuple(k.pop() if len(k) == 1 else "mixed" for k in kinds), [True] * max(depths))

    @property
    def attend(self) -> Optional[str]:
        """The value of ``--bert-attend``, or None if no layer attends to BERT."""
        sides = [s for s, d, k in zip(SIDES, self.depths, self.kinds) if k != "plain" and any(self.gates[:d])]
        return "both" if len(sides) == 2 else sides[0] if sides else None

    def closed(self) -> Iterator[Tuple[str, int]]:
        """Yield side and number of each layer whose attention to BERT is behind a closed gate."""
        for side, depth, kind in zip(SIDES, self.depths, self.kinds):
            yield from ((side, i) for i in range(depth) if kind == "parallel" and not self.gates[i])


def layer_errors(flags: Dict[str, Any], layers: Layers) -> List[str]:
    """Return a sentence for each way in which the layers differ from those of bert-nmt or from the *flags*."""
    errors = []
    for side, depth in zip(SIDES, layers.depths):
        if flags.get(f"{side}_layers") != depth:
            errors.append(
                f"args.{side}_layers is {flags.get(f'{side}_layers')}, but the checkpoint has weights of {depth} layers"
            )
    decoder = "plain" if flags["decoder_no_bert"] else "parallel"
    # the names of the architectures of forks are unknown
    expected = layers.kinds if layers.kinds in _KINDS else ("parallel", decoder)
    arch = str(flags["arch"])
    if arch.startswith("transformerstack"):
        expected = ("plain", "stacked")
    elif _BOTH.fullmatch(arch) or _DECODER.fullmatch(arch):
        expected = ("parallel" if _BOTH.fullmatch(arch) else "plain", decoder)
    if layers.kinds != expected:
        errors.append(
            f"args.arch {arch} with decoder_no_bert {flags['decoder_no_bert']} should have "
            f"{' encoder layers and '.join(expected)} decoder layers (by their bert_attn and bert_attn_layer_norm), "
            f"but it has weights of {' encoder layers and '.join(layers.kinds)} ones; it is of a fork, or damaged"
        )
    for side, depth, kind in zip(SIDES, layers.depths, layers.kinds):
        if kind == "parallel" and flags["bert_gates"] is not None and len(flags["bert_gates"]) != depth:
            errors.append(f"args.bert_gates must have one number for each {side} layer, got {flags['bert_gates']}")
    return errors
