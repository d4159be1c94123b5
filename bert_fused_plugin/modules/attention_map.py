"""The maps pi of attention, pi(scores) times values; all but softmax give weights that are exactly zero."""

import logging
from typing import Callable, Dict, List, NamedTuple, Optional

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

PACKAGE = "entmax"  # its functions are imported when a map is built, because softmax does not need them
LEAST_ALPHA_MINUS_ONE = 0.01  # the learned map and its gradient divide by alpha - 1

Function = Callable[[Tensor], Tensor]


class MapKind(NamedTuple):
    """An entry of the table of maps."""

    # takes the number of heads; None for softmax, which an attention fuses with its products where there is a kernel
    build: Optional[Callable[[int], nn.Module]]
    help: str  # in the help of the flags


ATTENTION_MAPS: Dict[str, MapKind] = {
    "softmax": MapKind(None, "each position gets some weight"),
    "sparsemax": MapKind(
        lambda heads: FixedMap("sparsemax"), "the projection onto the simplex, with few weights that are not zero"
    ),
    "entmax15": MapKind(lambda heads: FixedMap("entmax15"), "1.5-entmax, half way between these two"),
    "entmax": MapKind(lambda heads: LearnedEntmax(heads), "alpha-entmax, where each head learns its alpha, from 1.5"),
}


def build_attention_map(name: str, num_heads: int) -> Optional[nn.Module]:
    """Return a new map for an attention of *num_heads* heads; None for softmax.

    A map takes scores, (..., H, T, S), that are -inf where no weight may be, and returns the weights, at least in fp32.
    The dimension H may be missing if it is 1.
    """
    build = ATTENTION_MAPS[name].build
    return None if build is None else build(num_heads)


def attention_weights_of(attention_map: Optional[nn.Module], scores: Tensor) -> Tensor:
    """Return the weights, (..., S), that *attention_map* gives to *scores*, at least in fp32; None is softmax."""
    if attention_map is None:
        return torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    return attention_map(scores)


class FixedMap(nn.Module):
    """Scores to weights: sparsemax (Martins and Astudillo, ICML 2016) or entmax15 (Peters et al., ACL 2019)."""

    def __init__(self, name: str) -> None:
        super().__init__()
        import entmax

        self._function: Function = getattr(entmax, name)

    def forward(self, scores: Tensor) -> Tensor:
        """Return the weights, (..., S), of *scores*."""
        return _where_finite(self._function, scores)


class LearnedEntmax(nn.Module):
    """alpha-entmax; each head learns its own alpha = 1 + sigmoid(a) (Correia, Niculae and Martins, EMNLP 2019)."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        from entmax import entmax_bisect

        self.raw_alpha = nn.Parameter(torch.zeros(num_heads))  # alpha is 1.5 at first
        self._function: Callable[..., Tensor] = entmax_bisect

    def alpha(self) -> Tensor:
        """Return alpha of each head, (H), at least in fp32."""
        share = torch.sigmoid(self.raw_alpha.to(torch.promote_types(self.raw_alpha.dtype, torch.float32)))
        # the gradient ignores the bound, so that a head that has reached it can leave it again
        return 1 + share + (share.clamp(min=LEAST_ALPHA_MINUS_ONE) - share).detach()

    def forward(self, scores: Tensor) -> Tensor:
        """Return the weights, (..., H, T, S), of *scores*; H may be missing if it is 1."""

        def function(finite: Tensor) -> Tensor:
            # the bisection looks for tau within 1 of the peak; beside a large peak, tau would lose its digits
            finite = finite - finite.detach().amax(dim=-1, keepdim=True)
            alpha = self.alpha().to(finite.dtype).view(-1, 1, 1).expand(*finite.shape[:-1], 1)
            # of the bisection; then fp32 is exact to its last bit
            return self._function(finite, alpha, n_iter=24 if finite.dtype == torch.float32 else 50)

        return _where_finite(function, scores)


def learned_alphas(model: nn.Module) -> Dict[str, List[float]]:
    """Return the alpha of each head for each attention of *model* that learns it, by the name of the attention."""
    return {
        name.rpartition(".")[0]: module.alpha().tolist()
        for name, module in model.named_modules()
        if isinstance(module, LearnedEntmax)
    }


def log_alphas(model: nn.Module) -> Dict[str, float]:
    """Log the alphas of *model*, and return their mean as a statistic; nothing if it learns none."""
    alphas = learned_alphas(model)
    if not alphas:
        return {}
    for name, heads in alphas.items():
        logger.info(f"alpha of {name}: {' '.join(f'{alpha:.3f}' for alpha in heads)}")
    every = [alpha for heads in alphas.values() for alpha in heads]
    return {"alpha": round(sum(every) / len(every), 3)}


def _where_finite(function: Function, scores: Tensor) -> Tensor:
    """Return *function* of *scores*, (..., S), at least in fp32, with weights of exactly zero where they are -inf.

    A row with +inf or with no number, as half precision has them before a step is skipped, gets weights that are no
    numbers; the package would stop there with an error of an index.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    peak = scores.detach().amax(dim=-1, keepdim=True)
    weights = function(torch.where(peak.isfinite(), scores, torch.zeros_like(scores)))
    weights = weights.masked_fill(scores.detach() == -torch.inf, 0.0)
    return weights.masked_fill(~(peak < torch.inf), torch.nan)
