"""What encoder and decoder layers have in common when they are built from the flags."""

from typing import Any, Dict

from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.utils import get_activation_fn
from torch import nn

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, fusion_options


def common_layer_options(cfg: BertFusedConfig) -> Dict[str, Any]:
    """Return the numbers that encoder and decoder layers take alike."""
    return {
        "dropout": cfg.dropout,
        "attention_dropout": cfg.attention_dropout,
        "activation_dropout": cfg.activation_dropout or cfg.relu_dropout or 0.0,
        "activation_fn": get_activation_fn(cfg.activation_fn),
        "fusion": fusion_options(cfg),
    }


def wrap_layer(layer: nn.Module, cfg: BertFusedConfig) -> nn.Module:
    """Return *layer* under fairseq's activation checkpointing and FSDP, where the flags ask for it."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    # a checkpointed layer is always wrapped, whatever its size
    min_params = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    wrapped: nn.Module = fsdp_wrap(layer, min_num_params=min_params)
    return wrapped
