"""How BERT's states join the model: the table of the fusions, and the part of a layer that each of them needs."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.drop_net import DropNet, with_zero_gradients
from bert_fused_plugin.modules.multihead_attention import Attended


class IdentityStart(Enum):
    """What it takes that a new model computes what the model without BERT computes."""

    IMPOSSIBLE = "BERT's states always count"
    NMT_WEIGHT_ONE = "the NMT branch has weight 1"
    PRE_NORM = "layer norm stands before each sub-layer"


@dataclass(frozen=True)
class FusionKind:
    """The description of one fusion; the flags, their checks and the builders follow from it."""

    help: str  # the sentence about the fusion in the help text of ``--bert-fusion``
    # the layer's part, from the `LayerOptions`, which is called as `Branches` is; None: no layer has one
    build: Optional[Callable[[Any], nn.Module]] = None
    has_branches: bool = False  # whether the part joins two branches, under drop-net
    learned: bool = False  # whether it joins them by parameters, which drop-net with p_net = 1 never trains
    is_sublayer: bool = False  # whether the attention to BERT is a sub-layer of its own, which has a layer norm
    weighted: bool = False  # whether ``--bert-branch-weights`` has an effect
    identity_start: IdentityStart = IdentityStart.IMPOSSIBLE  # the condition of ``--bert-identity-start``

    @property
    def replaces_embeddings(self) -> bool:
        """Whether BERT's states take the place of the source embeddings, so that no layer attends to BERT."""
        return self.build is None


FUSION_KINDS: Dict[str, FusionKind] = {
    "parallel": FusionKind(
        help="each layer adds BERT's branch to its NMT branch, as in the paper",
        build=lambda options: Branches(WeightedSum(options.weights), options.p_net),
        has_branches=True,
        weighted=True,
        identity_start=IdentityStart.NMT_WEIGHT_ONE,
    ),
    "stacked": FusionKind(
        help="the attention to BERT is a sub-layer of its own, the authors' second architecture",
        build=lambda options: Stacked(options.bert_first),
        is_sublayer=True,
        identity_start=IdentityStart.PRE_NORM,
    ),
    "gated": FusionKind(
        help="each layer joins the two branches by a learned gate",
        build=lambda options: Branches(Gate(options.embed_dim), options.p_net),
        has_branches=True,
        learned=True,
    ),
    "embedding": FusionKind(help="BERT's states take the place of the source embeddings"),
}


class WeightedSum(nn.Module):
    """w_nmt * nmt + w_bert * bert; both weights are 0.5 in Zhu et al. 2020, section 4.1, steps 2 and 3."""

    def __init__(self, weights: Tuple[float, float]) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, nmt: Tensor, bert: Tensor) -> Tensor:
        """Return the sum, (T, B, C)."""
        w_nmt, w_bert = self.weights
        return torch.add(w_nmt * nmt, bert, alpha=w_bert)


class Gate(nn.Module):
    """g * bert + (1 - g) * nmt with g = sigmoid(W bert + U nmt + b), for each position and dimension.

    This is the dynamic switch of CTNMT (Yang et al., AAAI 2020), here between the branches of a layer.
    """

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.w = nn.Linear(embed_dim, embed_dim)
        self.u = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, nmt: Tensor, bert: Tensor) -> Tensor:
        """Return the gated sum, (T, B, C)."""
        g = torch.sigmoid(self.w(bert) + self.u(nmt))
        return g * bert + (1 - g) * nmt


class Branch(NamedTuple):
    """One of the two attentions of a layer that the fusion joins."""

    attend: Callable[[Tensor], Attended]  # of the layer's states, (T, B, C)
    module: nn.Module  # the attention; it gets zeros as gradient where drop-net leaves the branch out
    norm: Any  # the layer norm; None for BERT's attention, unless it is a sub-layer of its own


# the function of an attention, the states and a layer norm; it returns the states and the attention's weights
Sublayer = Callable[[Callable[[Tensor], Tuple[Tensor, Any]], Tensor, Any], Tuple[Tensor, Any]]
Fused = Tuple[Tensor, Optional[Tensor], Optional[Tensor]]  # the states, the weights of the NMT branch and of BERT's


class Branches(nn.Module):
    """Both branches in one sub-layer, joined by the module *mix*; in training, drop-net may leave only one of them.

    A branch that drop-net leaves out is not computed.  The function *mix* takes the outputs of the NMT branch and of
    BERT's branch, (T, B, C) each.
    """

    def __init__(self, mix: nn.Module, p_net: float) -> None:
        super().__init__()
        self.mix = mix
        self.drop_net = DropNet(p_net)

    def forward(self, sublayer: Sublayer, x: Tensor, nmt: Branch, bert: Branch) -> Fused:
        """Return the states after both attentions, (T, B, C), and the weights of both.

        Args:
            sublayer: the function that applies an attention with residual connection and layer norm.
            x: the states of the layer, (T, B, C).
            nmt: the NMT branch: self-attention in the encoder, the attention to the encoder in the decoder.
            bert: the attention to BERT.
        """
        x, (nmt_weights, bert_weights) = sublayer(lambda h: self.join(h, nmt, bert), x, nmt.norm)
        return x, nmt_weights, bert_weights

    def join(self, x: Tensor, nmt: Branch, bert: Branch) -> Tuple[Tensor, Tuple[Optional[Tensor], Optional[Tensor]]]:
        """Return the joined branches, (T, B, C), and the weights of both, of the states *x* that both branches read."""
        nmt_alone, bert_alone = self.drop_net()
        if nmt_alone:
            nmt_out, nmt_weights = nmt.attend(x)
            return with_zero_gradients(nmt_out, *bert.module.parameters(), *self.mix.parameters()), (nmt_weights, None)
        if bert_alone:
            bert_out, bert_weights = bert.attend(x)
            return with_zero_gradients(bert_out, *nmt.module.parameters(), *self.mix.parameters()), (None, bert_weights)
        (nmt_out, nmt_weights), (bert_out, bert_weights) = nmt.attend(x), bert.attend(x)
        return self.mix(nmt_out, bert_out), (nmt_weights, bert_weights)


class Stacked(nn.Module):
    """Both attentions as sub-layers, one after the other."""

    def __init__(self, bert_first: bool) -> None:
        super().__init__()
        self.bert_first = bert_first

    def forward(self, sublayer: Sublayer, x: Tensor, nmt: Branch, bert: Branch) -> Fused:
        """Return what `Branches` returns, of the same arguments."""
        if self.bert_first:
            x, bert_weights = sublayer(bert.attend, x, bert.norm)
        x, nmt_weights = sublayer(nmt.attend, x, nmt.norm)
        if not self.bert_first:
            x, bert_weights = sublayer(bert.attend, x, bert.norm)
        return x, nmt_weights, bert_weights
