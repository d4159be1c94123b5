"""LayerDrop's pruning (Fan et al., ICLR 2020): a model that keeps some layers loads the checkpoint of all of them."""

import logging
import re
from typing import Any, Dict, Optional

from torch import Tensor

from bert_fused_plugin.models.bert_fused.config import kept_layers

logger = logging.getLogger(__name__)

_OF_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")  # not a layer of a fine-tuned BERT

Places = Dict[str, Dict[int, int]]  # of each side that is pruned: the new number of each layer that is kept


def pruned(cfg: Any, state_dict: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return *state_dict* with the layers that a model of the flags *cfg* keeps, under their numbers in that model.

    fairseq's own pruning fails for the lists that the command line gives.  It would prune a checkpoint again that has
    only the layers that are kept, as a training with these flags writes it, and it takes layers of BERT for layers of
    the model.
    """
    places: Places = {}
    for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        kept = kept_layers(part)
        saved = {int(found[2]) for found in map(_OF_LAYER.fullmatch, state_dict) if found and found[1] == side}
        if kept is not None and saved != set(range(len(kept))):
            places[side] = {number: place for place, number in enumerate(kept)}
            logger.info(f"the {side} keeps layers {', '.join(map(str, kept))} of the checkpoint")
    if not places:
        return state_dict
    names = {name: _new_name(name, places) for name in state_dict}
    return {new: state_dict[name] for name, new in names.items() if new is not None}


def _new_name(name: str, places: Places) -> Optional[str]:
    """Return the name of a parameter in the pruned model; None if its layer is not kept."""
    found = _OF_LAYER.fullmatch(name)
    if found is None or found[1] not in places:
        return name
    place = places[found[1]].get(int(found[2]))
    return None if place is None else f"{found[1]}.layers.{place}.{found[3]}"
