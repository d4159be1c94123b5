"""Consistency training: a batch is read twice, and the two distributions of each target symbol should agree."""

from contextlib import ExitStack
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from bert_fused_plugin.bert.source import source_of
from bert_fused_plugin.criterions.smoothed_loss import Agreement
from bert_fused_plugin.errors import BertFusedError


class ConsistencyKind(NamedTuple):
    """A way to read a batch twice."""

    help: str
    alpha: float  # the default of ``--consistency-alpha``
    agreement: Callable[[float], Agreement]  # the loss of both readings, from alpha
    cuts: bool  # whether the second reading lacks the embeddings of some tokens


CONSISTENCY_KINDS: Dict[str, Optional[ConsistencyKind]] = {
    "none": None,
    # Gao et al., NAACL 2022, with its alpha for IWSLT'14
    "simcut": ConsistencyKind(
        "the second reading lacks the embeddings of some tokens (Gao et al. 2022)",
        alpha=3.0,
        agreement=lambda alpha: Agreement(alpha, weights=(1.0, 0.0)),
        cuts=True,
    ),
    # Wu et al., NeurIPS 2021, with its alpha for translation; its sum of both readings is a mean here
    "r-drop": ConsistencyKind(
        "each reading has a dropout and a drop-net of its own (Wu et al. 2021)",
        alpha=5.0,
        agreement=lambda alpha: Agreement(alpha / 2, weights=(0.5, 0.5)),
        cuts=False,
    ),
}


def read_twice(model: Any, net_input: Dict[str, Any], p_cut: Optional[float], **options: Any) -> Tuple[Any, Any]:
    """Return what *model*, maybe in wrappers, returns for the batch *net_input*, twice; a frozen BERT reads it once.

    The second reading lacks the share *p_cut* of the tokens; None: it lacks none, and draws dropout anew.  The
    *options* are more inputs of the model.

    Raises:
        BertFusedError: tokens are cut, and the model has other modules for its embeddings than fairseq's have.
    """
    if source := source_of(model):
        net_input = source.with_states(net_input)
    first = model(**net_input, **options)
    if p_cut is None:
        return first, model(**net_input, **options)
    sides = [getattr(model, side) for side in ("encoder", "decoder") if hasattr(model, side)]
    if [hasattr(side, "embed_tokens") for side in sides] != [True, True]:
        raise BertFusedError(
            "--consistency simcut cuts what encoder.embed_tokens and decoder.embed_tokens return, and "
            f"{type(model).__name__} does not have both; give --consistency r-drop"
        )
    if "bert_out" in net_input:
        net_input = {**net_input, "bert_out": cut(net_input["bert_out"], p_cut)}
    with ExitStack() as hooks:
        # one module may serve both sides; there are none of the source where BERT's states take their place
        bert = None if source is None else source.bert  # which computes anew if it trains
        for module in {*(side.embed_tokens for side in sides), bert} - {None}:
            hooks.enter_context(module.register_forward_hook(lambda *call: cut(call[-1], p_cut)))
        return first, model(**net_input, **options)


def cut(states: Tensor, p_cut: float) -> Tensor:
    """Return *states*, (B, S, C), of which each position is zero with the probability *p_cut*."""
    kept = torch.rand(states.shape[:-1], device=states.device) >= p_cut
    return states * kept.unsqueeze(-1)
