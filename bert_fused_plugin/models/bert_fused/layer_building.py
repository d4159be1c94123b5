"""How the layers are built from the flags."""

from functools import partial
from types import SimpleNamespace
from typing import Any, Callable, Iterator

from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.utils import get_activation_fn
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.modules.fused_layer import LayerOptions


def new_layers(
    kind: Callable[..., nn.Module], cfg: BertFusedConfig, name: str, bert_dim: int, **dims: int
) -> Iterator[nn.Module]:
    """Build layers of a *kind* for the side *name* when they are asked for, maybe under activation checkpointing."""
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
        if cfg.checkpoint_activations:
            layer.forward = partial(_checkpointed, layer.forward, cfg.offload_activations)
        yield layer


def _checkpointed(forward: Any, offload: bool, *arguments: Any, **options: Any) -> Any:
    if not forward.__self__.training:
        return forward(*arguments, **options)
    # fairseq gives gradients to arguments that are tensors, and not to keys and values inside of one
    parts, spec = tree_flatten((arguments, options))

    def run(*parts: Any) -> Any:
        arguments, options = tree_unflatten(list(parts), spec)
        return forward(*arguments, **options)

    return checkpoint_wrapper(SimpleNamespace(forward=run), offload).forward(*parts)
