"""Consistency training: a batch is read twice, and the two distributions of each target symbol should agree."""

from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Set, Tuple

import torch
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bert_fused_plugin.bert.layers import bert_states
from bert_fused_plugin.criterions.smoothed_loss import Agreement
from bert_fused_plugin.errors import BertFusedError


class ConsistencyKind(NamedTuple):
    """A way to read a batch twice.

    Args:
        help: what it does, for ``--help``.
        alpha: the default of ``--consistency-alpha``.
        agreement: the loss of both readings, from alpha.
        cuts: whether the second reading lacks the embeddings of some tokens.
    """

    help: str
    alpha: float
    agreement: Callable[[float], Agreement]
    cuts: bool


CONSISTENCY_KINDS: Dict[str, Optional[ConsistencyKind]] = {
    "none": None,
    # Gao et al., NAACL 2022, with its alpha for IWSLT'14
    "simcut": ConsistencyKind(
        "the second reading lacks the embeddings of some tokens (Gao et al. 2022)",
        alpha=3.0,
        agreement=lambda alpha: Agreement(alpha, cross_entropy=(1.0, 0.0), divergence=(1.0, 0.0)),
        cuts=True,
    ),
    # Wu et al., NeurIPS 2021, with its alpha for translation; its sum of both readings is a mean here
    "r-drop": ConsistencyKind(
        "each reading has a dropout and a drop-net of its own (Wu et al. 2021)",
        alpha=5.0,
        agreement=lambda alpha: Agreement(alpha / 2, cross_entropy=(0.5, 0.5), divergence=(0.5, 0.5)),
        cuts=False,
    ),
}


class Consistency(NamedTuple):
    """How a training reads its batches.

    Args:
        agreement: the loss of both readings.
        p_cut: the share of the tokens that the second reading lacks; None: it lacks none, and draws dropout anew.
    """

    agreement: Agreement
    p_cut: Optional[float]

    def read_twice(self, model: nn.Module, net_input: Dict[str, Any], **options: Any) -> Tuple[Any, Any]:
        """Return what *model* returns for the batch *net_input*, twice; a frozen BERT reads it once.

        Args:
            model: a model, maybe inside of wrappers.
            net_input: the batch.
            options: more inputs of the model.

        Raises:
            BertFusedError: tokens have to be cut, and the model's embeddings are not where fairseq's models have them.
        """
        *_, inner = unwrapped(model)
        encoder: Any = dict(inner.named_children()).get("encoder")
        if hasattr(encoder, "bert") and encoder.bert is not None and not encoder.bert.saves_weights:
            tokens, states = bert_states(encoder, **net_input)
            net_input = {**net_input, "bert_tokens": tokens, "bert_out": states}
        if self.p_cut is None:
            return model(**net_input, **options), model(**net_input, **options)
        embeddings = embeddings_of(inner)
        first = model(**net_input, **options)
        if "bert_out" in net_input:
            net_input = {**net_input, "bert_out": cut(net_input["bert_out"], self.p_cut)}
        hooks = [module.register_forward_hook(lambda *call: cut(call[-1], self.p_cut)) for module in embeddings]
        try:
            return first, model(**net_input, **options)
        finally:
            for hook in hooks:
                hook.remove()


def embeddings_of(model: Any) -> Set[nn.Module]:
    """Return the embeddings of both sides of *model*, which one module may serve.

    Raises:
        BertFusedError: they are not where fairseq's models have them.
    """
    sides = dict(model.named_children())
    if not all(hasattr(sides.get(name), "embed_tokens") for name in ("encoder", "decoder")):
        raise BertFusedError(
            f"--consistency simcut cuts embeddings, and {type(model).__name__} does not have them where fairseq's "
            "translation models have them, as encoder.embed_tokens and decoder.embed_tokens; use --consistency r-drop"
        )
    # there are none of the source where BERT's states take their place
    return {model.encoder.embed_tokens, model.decoder.embed_tokens} - {None}


def unwrapped(model: Any) -> Iterator[Any]:
    """Yield the wrappers of several processes around *model*, from the outside, and the model itself."""
    yield model
    while isinstance(model, (ModuleProxyWrapper, LegacyDistributedDataParallel, DistributedDataParallel)):
        model = model.module
        yield model


def cut(states: Tensor, p_cut: float) -> Tensor:
    """Return *states*, (B, S, C), of which each position is zero with the probability *p_cut*."""
    kept = torch.rand(states.shape[:-1], device=states.device) >= p_cut
    return states * kept.unsqueeze(-1)
