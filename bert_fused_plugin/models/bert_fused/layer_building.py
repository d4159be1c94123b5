"""How the layers are built from the flags."""

from contextlib import nullcontext
from functools import partial
from typing import Any, Callable, Iterator

from fairseq.utils import get_activation_fn
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

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
    tensors, form = tree_flatten((arguments, options))  # of what is in tuples, torch would offload nothing
    # fairseq's own checkpointing has a backward pass for each layer, and forgets autocast
    with save_on_cpu() if offload else nullcontext():
        return checkpoint(partial(_from_parts, forward, form), *tensors, use_reentrant=False)


def _from_parts(forward: Any, form: Any, *tensors: Any) -> Any:
    arguments, options = tree_unflatten(tensors, form)
    return forward(*arguments, **options)
