"""How the layers are built from the flags, and which layers of a checkpoint a pruned model takes."""

import logging
import re
from typing import Any, Callable, Dict, Iterator

from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.utils import get_activation_fn
from torch import Tensor, nn

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, kept_layers
from bert_fused_plugin.modules.fused_layer import LayerOptions
from bert_fused_plugin.modules.fusion import FusionOptions

logger = logging.getLogger(__name__)


def new_layers(
    kind: Callable[..., nn.Module], cfg: BertFusedConfig, name: str, bert_dim: int, **dims: int
) -> Iterator[nn.Module]:
    """Build layers of a *kind* when they are asked for, under fairseq's activation checkpointing if the flags say so.

    The *name* is "encoder" or "decoder".  A layer attends to BERT's states, *bert_dim* wide, if its gate is open.  The
    *dims* are further arguments of *kind*.
    """
    side = vars(cfg)[name]
    fusion = FusionOptions(
        kind=str(cfg.bert_fusion),
        p_net=cfg.drop_net_rate(),
        weights=cfg.branch_weights(),
        bert_first=str(cfg.bert_stack_order) == "bert-first",
        identity_start=cfg.bert_identity_start,
    )
    for gate in cfg.gates(name):
        options = LayerOptions(
            embed_dim=side.embed_dim,
            ffn_dim=side.ffn_embed_dim,
            num_heads=side.attention_heads,
            bert_dim=bert_dim if gate else None,
            dropout=cfg.dropout,
            attention_dropout=cfg.attention_dropout,
            activation_dropout=cfg.activation_dropout or cfg.relu_dropout or 0.0,
            activation_fn=get_activation_fn(cfg.activation_fn),
            normalize_before=side.normalize_before,
            fusion=fusion,
            attention_map=str(cfg.attention_map),
            self_attention_map=str(cfg.self_attention_map),
        )
        layer = kind(options, **dims)
        yield checkpoint_wrapper(layer, cfg.offload_activations) if cfg.checkpoint_activations else layer


def pruned(cfg: Any, state_dict: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """Return *state_dict* with the layers that a model of the flags *cfg* keeps, under their numbers in that model.

    This is LayerDrop's pruning (Fan et al., ICLR 2020).  fairseq's own fails for the lists that the command line gives.
    It would prune a checkpoint again that has only the layers that are kept, as a training with these flags writes it,
    and it takes layers of BERT for layers of the model.
    """
    for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        kept = kept_layers(part)
        of_layer = re.compile(rf"{side}\.layers\.(\d+)\.")
        saved = {int(found[1]) for found in map(of_layer.match, state_dict) if found}
        if kept is None or saved == set(range(len(kept))):
            continue
        logger.info(f"the {side} keeps layers {', '.join(map(str, kept))} of the checkpoint")
        result = {}
        for name, tensor in state_dict.items():
            found = of_layer.match(name)
            if found is None:
                result[name] = tensor
            elif int(found[1]) in kept:
                result[f"{side}.layers.{kept.index(int(found[1]))}.{name[found.end() :]}"] = tensor
        state_dict = result
    return state_dict
