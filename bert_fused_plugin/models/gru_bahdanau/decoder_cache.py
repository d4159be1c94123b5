"""What the recurrent decoder keeps from one step of incremental decoding to the next."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from torch import Tensor

from bert_fused_plugin.modules.attention_memory import ProjectedMemory
from bert_fused_plugin.modules.beam_order import sentences_to_keep

Cached = Dict[str, Optional[Tensor]]  # as fairseq keeps it


class StateWeights(NamedTuple):
    """The weights of the products with the decoder's state, joined so that each step needs as few as possible."""

    old: Tensor  # of the state before the step: U_z, U_r and, unless the new state is the query, each W_a
    new: Optional[Tensor]  # each W_a, if the new state is the query


class Step(NamedTuple):
    """The values that one step passes on to the next, for each row."""

    states: Tensor  # s of each layer, (layers, B, n)
    input_feed: Tensor  # C c of the previous step, (B, 3n), with input feeding; otherwise (B, 0)
    coverage: Tensor  # the sum of alpha over the steps before, (B, S), with coverage; otherwise (B, 0)


def to_cache(memories: List[ProjectedMemory], weights: StateWeights, step: Step) -> Cached:
    """Return what `from_cache` reads."""
    cached: Cached = {**step._asdict(), **weights._asdict()}
    for i, memory in enumerate(memories):
        cached.update({f"{name}.{i}": value for name, value in memory._asdict().items()})
    return cached


def from_cache(cached: Cached) -> Tuple[List[ProjectedMemory], StateWeights, Step]:
    """Return the memories, the weights and the start of the next step."""
    values: Any = cached
    count = sum(name.startswith("keys.") for name in cached)
    memories = [ProjectedMemory(*(values[f"{name}.{i}"] for name in ProjectedMemory._fields)) for i in range(count)]
    weights = StateWeights(*(values[name] for name in StateWeights._fields))
    return memories, weights, Step(*(values[name] for name in Step._fields))


def reordered(cached: Cached, new_order: Tensor) -> Cached:
    """Return *cached* with its rows in *new_order*; the memories are kept once for all beams of a sentence."""
    memories, weights, step = from_cache(cached)
    rows, sentences = step.states.size(1), len(memories[0].keys)
    keep, _ = sentences_to_keep(new_order, sentences, rows // sentences)
    if keep is not None:
        memories = [ProjectedMemory(*(tensor.index_select(0, keep) for tensor in memory)) for memory in memories]
    states, *others = step
    return to_cache(
        memories,
        weights,
        Step(states.index_select(1, new_order), *(tensor.index_select(0, new_order) for tensor in others)),
    )
