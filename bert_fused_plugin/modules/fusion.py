"""How BERT's states join the model: the table of the fusions, and what joins the two branches of a layer."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class FusionKind:
    """The description of one fusion; the flags, their checks and the layers follow from it."""

    help: str  # the sentence about the fusion in the help text of ``--bert-fusion``
    # builds, from the `LayerOptions`, the module that joins the outputs of the NMT branch and of BERT's branch,
    # (B, T, C) each, under drop-net; None: there are no two branches
    mix: Optional[Callable[[Any], nn.Module]] = None
    is_sublayer: bool = False  # whether the attention to BERT is a sub-layer of its own, which has a layer norm
    # whether the branches are summed with --bert-branch-weights; only then does the paper's drop-net with p_net = 1,
    # which never joins the branches in training, make sense
    weighted: bool = False

    @property
    def has_branches(self) -> bool:
        """Whether a layer joins two branches, under drop-net."""
        return self.mix is not None

    @property
    def replaces_embeddings(self) -> bool:
        """Whether BERT's states replace the source embeddings, so that no layer attends to BERT."""
        return not (self.has_branches or self.is_sublayer)


FUSION_KINDS: Dict[str, FusionKind] = {
    "parallel": FusionKind(
        help="each layer adds BERT's branch to its NMT branch, as in the paper",
        mix=lambda options: WeightedSum(options.weights),
        weighted=True,
    ),
    "stacked": FusionKind(
        help="the attention to BERT is a sub-layer of its own, the authors' second architecture",
        is_sublayer=True,
    ),
    "gated": FusionKind(
        help="each layer joins the two branches by a learned gate",
        mix=lambda options: Gate(options.embed_dim),
    ),
    "embedding": FusionKind(help="BERT's states replace the source embeddings"),
}


class WeightedSum(nn.Module):
    """w_nmt * nmt + w_bert * bert; both weights are 0.5 in Zhu et al. 2020, section 4.1, steps 2 and 3."""

    def __init__(self, weights: Tuple[float, float]) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, nmt: Tensor, bert: Tensor) -> Tensor:
        """Return the sum, (B, T, C)."""
        w_nmt, w_bert = self.weights
        if w_nmt + w_bert == 1:
            return torch.lerp(nmt, bert, w_bert)  # one operation less
        return torch.add(nmt if w_nmt == 1 else w_nmt * nmt, bert, alpha=w_bert)


class Gate(nn.Module):
    """g * bert + (1 - g) * nmt with g = sigmoid(W bert + U nmt + b), for each position and dimension.

    This is the dynamic switch of CTNMT (Yang et al., AAAI 2020), here between the branches of a layer.
    """

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.w = nn.Linear(embed_dim, embed_dim)
        self.u = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, nmt: Tensor, bert: Tensor) -> Tensor:
        """Return the gated sum, (B, T, C)."""
        return torch.lerp(nmt, bert, torch.sigmoid(self.w(bert) + self.u(nmt)))
