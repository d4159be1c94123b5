"""How BERT's states join the model: the table of the fusions, and the modules that join two branches of a layer."""

from dataclasses import dataclass
from enum import Enum
from typing import Callable, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.cross_attention import CrossAttention
from bert_fused_plugin.modules.drop_net import DropNet
from bert_fused_plugin.modules.mapped_attention import Attended
from bert_fused_plugin.modules.zero_gradients import with_zero_gradients


class Place(Enum):
    """Where BERT's states enter the model."""

    BRANCH = "a branch beside the NMT branch of a layer"
    SUBLAYER = "a sub-layer of its own in a layer"
    EMBEDDINGS = "the place of the source embeddings"


class IdentityStart(Enum):
    """What it takes that a new model computes what the model without BERT computes."""

    IMPOSSIBLE = "BERT's states always count"
    NMT_WEIGHT_ONE = "the NMT branch has weight 1"
    PRE_NORM = "layer norm stands before each sub-layer"


@dataclass(frozen=True)
class FusionKind:
    """The description of one fusion; the flags, their checks and the builders follow from it.

    Args:
        help: the sentence about the fusion in the help text of ``--bert-fusion``.
        place: where BERT's states enter the model.
        build_mix: the builder of the module that joins two branches, from the options of the fusion and C; the module
            takes the outputs of the NMT branch and of BERT's branch, (T, B, C) each, and returns the joined output.
        weighted: whether ``--bert-branch-weights`` has an effect.
        identity_start: the condition of ``--bert-identity-start``.
        default_p_net: the default of ``--bert-drop-net``, for a fusion of two branches.
    """

    help: str
    place: Place
    build_mix: Optional[Callable[["FusionOptions", int], nn.Module]] = None
    weighted: bool = False
    identity_start: IdentityStart = IdentityStart.IMPOSSIBLE
    default_p_net: float = 0.0

    @property
    def has_branches(self) -> bool:
        """Whether a layer joins two branches, under drop-net."""
        return self.place is Place.BRANCH

    @property
    def is_sublayer(self) -> bool:
        """Whether the attention to BERT is a sub-layer of its own."""
        return self.place is Place.SUBLAYER

    @property
    def replaces_embeddings(self) -> bool:
        """Whether BERT's states take the place of the source embeddings, so that no layer attends to BERT."""
        return self.place is Place.EMBEDDINGS


FUSION_KINDS: Dict[str, FusionKind] = {
    "parallel": FusionKind(
        help="each layer adds BERT's branch to its NMT branch, as in the paper",
        place=Place.BRANCH,
        build_mix=lambda options, embed_dim: WeightedSum(options.weights),
        weighted=True,
        identity_start=IdentityStart.NMT_WEIGHT_ONE,
        default_p_net=1.0,
    ),
    "stacked": FusionKind(
        help="the attention to BERT is a sub-layer of its own, as in the authors' code",
        place=Place.SUBLAYER,
        identity_start=IdentityStart.PRE_NORM,
    ),
    "gated": FusionKind(
        help="each layer joins the two branches by a learned gate",
        place=Place.BRANCH,
        build_mix=lambda options, embed_dim: Gate(embed_dim),
        default_p_net=1.0,
    ),
    "embedding": FusionKind(
        help="BERT's states take the place of the source embeddings",
        place=Place.EMBEDDINGS,
    ),
}


def fusion_kind(name: str) -> FusionKind:
    """Return the fusion of this name.

    Raises:
        ValueError: a name that is not in the table.
    """
    if name not in FUSION_KINDS:
        raise ValueError(f"The fusion must be one of {', '.join(FUSION_KINDS)}, got {name!r}.")
    return FUSION_KINDS[name]


@dataclass(frozen=True)
class FusionOptions:
    """What a layer must know of the fusion.

    Args:
        kind: the name of the fusion in the table.
        p_net: the rate of drop-net, for a fusion of two branches.
        weights: the weights of the NMT branch and of BERT's branch, for a weighted fusion.
        bert_first: whether the sub-layer of BERT comes before that of the NMT branch, for a fusion with a sub-layer.
        identity_start: whether the output of the attention to BERT begins as zero.
    """

    kind: str = "parallel"
    p_net: float = 0.0
    weights: Tuple[float, float] = (0.5, 0.5)
    bert_first: bool = True
    identity_start: bool = False

    def build(self, embed_dim: int) -> Optional["Fusion"]:
        """Build the module that joins the branches, or return None for a fusion without two branches.

        Raises:
            ValueError: an unknown kind.
        """
        build_mix = fusion_kind(self.kind).build_mix
        return None if build_mix is None else Fusion(build_mix(self, embed_dim), DropNet(self.p_net))

    def build_attention(
        self, embed_dim: int, num_heads: int, bert_dim: int, dropout: float, attention_map: str = "softmax"
    ) -> CrossAttention:
        """Build the attention to BERT's states."""
        attention = CrossAttention(embed_dim, num_heads, bert_dim, dropout, attention_map)
        if self.identity_start:
            nn.init.zeros_(attention.out_proj.weight)
            nn.init.zeros_(attention.out_proj.bias)
        return attention


class WeightedSum(nn.Module):
    """w_nmt * nmt + w_bert * bert; it is the mean in Zhu et al. 2020, section 4.1, steps 2 and 3."""

    def __init__(self, weights: Tuple[float, float]) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, nmt: Tensor, bert: Tensor) -> Tensor:
        """Return the sum, (T, B, C)."""
        w_nmt, w_bert = self.weights
        return w_nmt * nmt + w_bert * bert

    def extra_repr(self) -> str:
        """Show the weights where a module is printed."""
        return f"weights={self.weights}"


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
        g = self.bert_share(nmt, bert)
        return g * bert + (1 - g) * nmt

    def bert_share(self, nmt: Tensor, bert: Tensor) -> Tensor:
        """Return g, (T, B, C)."""
        return torch.sigmoid(self.w(bert) + self.u(nmt))


class Branch(NamedTuple):
    """One of the two attentions of a layer that the fusion joins.

    Args:
        attend: the function from the layer's states, (T, B, C), to the output of the attention and its weights.
        module: the attention; it gets zeros as gradient where drop-net leaves the branch out.
    """

    attend: Callable[[Tensor], Attended]
    module: nn.Module


class Fusion(nn.Module):
    """Both branches of a layer, joined by *mix*; under drop-net, in training, one of them alone.

    A branch that drop-net leaves out is not computed.
    """

    def __init__(self, mix: nn.Module, drop_net: DropNet) -> None:
        super().__init__()
        self.mix = mix
        self.drop_net = drop_net

    def forward(self, x: Tensor, nmt: Branch, bert: Branch) -> Tuple[Tensor, Tuple[Optional[Tensor], Optional[Tensor]]]:
        """Return the joined branches, (T, B, C), and the attention weights of the NMT branch and of BERT's.

        Args:
            x: the states that both branches read, (T, B, C).
            nmt: the NMT branch.
            bert: BERT's branch.
        """
        nmt_alone, bert_alone = self.drop_net()
        if nmt_alone:
            nmt_out, nmt_weights = nmt.attend(x)
            return with_zero_gradients(nmt_out, *bert.module.parameters(), *self.mix.parameters()), (nmt_weights, None)
        if bert_alone:
            bert_out, bert_weights = bert.attend(x)
            return with_zero_gradients(bert_out, *nmt.module.parameters(), *self.mix.parameters()), (None, bert_weights)
        (nmt_out, nmt_weights), (bert_out, bert_weights) = nmt.attend(x), bert.attend(x)
        return self.mix(nmt_out, bert_out), (nmt_weights, bert_weights)
