"""How the layers of the encoder and of the decoder are built from the flags."""

from typing import Optional

from fairseq.models.transformer.transformer_config import EncDecBaseConfig
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.utils import get_activation_fn
from torch import nn

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.modules.fused_layer import LayerOptions


def layer_options(cfg: BertFusedConfig, side: EncDecBaseConfig, bert_dim: Optional[int]) -> LayerOptions:
    """Return the options of one layer.

    Args:
        cfg: the model's flags.
        side: those of the encoder or of the decoder.
        bert_dim: D, or None for a layer that does not attend to BERT.
    """
    return LayerOptions(
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


def wrap_layer(layer: nn.Module, cfg: BertFusedConfig) -> nn.Module:
    """Return *layer* under fairseq's activation checkpointing, if the flags ask for it."""
    if not cfg.checkpoint_activations:
        return layer
    wrapped: nn.Module = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return wrapped
