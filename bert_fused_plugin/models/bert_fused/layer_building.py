"""How the layers are built from the flags."""

from typing import Callable, Iterator

from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.utils import get_activation_fn
from torch import nn

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.modules.fused_layer import LayerOptions


def new_layers(
    kind: Callable[..., nn.Module], cfg: BertFusedConfig, name: str, bert_dim: int, **dims: int
) -> Iterator[nn.Module]:
    """Build layers of a *kind* when they are asked for, under fairseq's activation checkpointing if the flags say so.

    The *name* is "encoder" or "decoder".  A layer attends to BERT's states, *bert_dim* wide, if its gate is open.  The
    *dims* are further arguments of *kind*.
    """
    side = vars(cfg)[name]
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
            fusion=str(cfg.bert_fusion),
            p_net=cfg.drop_net_rate(),
            weights=cfg.branch_weights(),
            bert_first=str(cfg.bert_stack_order) == "bert-first",
            identity_start=cfg.bert_identity_start,
            attention_map=str(cfg.attention_map),
            self_attention_map=str(cfg.self_attention_map),
        )
        layer = kind(options, **dims)
        yield checkpoint_wrapper(layer, cfg.offload_activations) if cfg.checkpoint_activations else layer
