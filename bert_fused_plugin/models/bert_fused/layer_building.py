"""How the layers are built from the flags, and which layers of a checkpoint a pruned model takes."""

import logging
import re
from typing import Any, Callable, Dict, Optional

from fairseq.models.transformer.transformer_config import EncDecBaseConfig
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.utils import get_activation_fn
from torch import Tensor, nn

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, kept_layers
from bert_fused_plugin.modules.fused_layer import LayerOptions

logger = logging.getLogger(__name__)

_OF_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")  # not a layer of a fine-tuned BERT


def build_layer(
    kind: Callable[..., nn.Module], cfg: BertFusedConfig, side: EncDecBaseConfig, bert_dim: Optional[int], **dims: int
) -> nn.Module:
    """Return a new layer, under fairseq's activation checkpointing if the flags ask for it.

    Args:
        kind: the class of the layer.
        cfg: the model's flags.
        side: those of the encoder or of the decoder.
        bert_dim: D, or None for a layer that does not attend to BERT.
        dims: further arguments of *kind*.
    """
    options = LayerOptions(
        embed_dim=side.embed_dim,
        ffn_dim=side.ffn_embed_dim,
        num_heads=side.attention_heads,
        bert_dim=bert_dim,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        activation_dropout=cfg.activation_dropout or cfg.relu_dropout or 0.0,
        activation_fn=get_activation_fn(cfg.activation_fn),
        normalize_before=side.normalize_before,
        fusion=cfg.fusion_options(),
        attention_map=str(cfg.attention_map),
        self_attention_map=str(cfg.self_attention_map),
    )
    layer = kind(options, **dims)
    return checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations) if cfg.checkpoint_activations else layer


def pruned(cfg: Any, state_dict: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return *state_dict* with the layers that a model of the flags *cfg* keeps, under their numbers in that model.

    This is LayerDrop's pruning (Fan et al., ICLR 2020).  fairseq's own fails for the lists that the command line gives.
    It would prune a checkpoint again that has only the layers that are kept, as a training with these flags writes it,
    and it takes layers of BERT for layers of the model.
    """
    places: Dict[str, Dict[int, int]] = {}  # for each pruned side: the new number of each layer that is kept
    for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        kept = kept_layers(part)
        saved = {int(found[2]) for found in map(_OF_LAYER.fullmatch, state_dict) if found and found[1] == side}
        if kept is not None and saved != set(range(len(kept))):
            places[side] = {number: place for place, number in enumerate(kept)}
            logger.info(f"the {side} keeps layers {', '.join(map(str, kept))} of the checkpoint")
    if not places:
        return state_dict
    result = {}
    for name, tensor in state_dict.items():
        found = _OF_LAYER.fullmatch(name)
        if found is None or found[1] not in places:
            result[name] = tensor
        elif int(found[2]) in places[found[1]]:
            result[f"{found[1]}.layers.{places[found[1]][int(found[2])]}.{found[3]}"] = tensor
    return result
