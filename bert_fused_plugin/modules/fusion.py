"""How a layer joins its NMT branch and BERT's branch."""

from dataclasses import dataclass
from typing import Any, Callable, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.cross_attention import CrossAttention
from bert_fused_plugin.modules.drop_net import DropNet


@dataclass(frozen=True)
class FusionOptions:
    """What a layer must know of the fusion.

    ``parallel`` and ``gated`` join two branches beside each other, under drop-net; ``stacked`` makes BERT's
    attention a sub-layer of its own, with residual connection and layer norm, as in the authors' code.
    """

    kind: str = "parallel"
    p_net: float = 0.0
    per_sentence: bool = False  # drop-net
    weights: Tuple[float, float] = (0.5, 0.5)  # of (NMT branch, BERT's), parallel
    bert_first: bool = True  # stacked
    identity_start: bool = False  # BERT's branch begins as zero

    @property
    def stacked(self) -> bool:
        """Say whether BERT's attention is a sub-layer of its own."""
        return self.kind == "stacked"

    def build(self, embed_dim: int) -> "Fusion":
        """Build the module that joins the branches, (T, B, C) each, of the kinds with two branches."""
        mix = Gate(embed_dim) if self.kind == "gated" else WeightedSum(self.weights)
        return Fusion(mix, DropNet(self.p_net, self.per_sentence))

    def build_attention(self, embed_dim: int, num_heads: int, bert_dim: int, dropout: float) -> CrossAttention:
        """Build the attention to BERT's states."""
        attention = CrossAttention(embed_dim, num_heads, bert_dim, dropout)
        if self.identity_start:
            nn.init.zeros_(attention.out_proj.weight)
            nn.init.zeros_(attention.out_proj.bias)
        return attention


class WeightedSum(nn.Module):
    """w_other * other + w_bert * bert; the mean in Zhu et al. 2020, section 4.1, steps 2 and 3."""

    def __init__(self, weights: Tuple[float, float]) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, other: Tensor, bert: Tensor) -> Tensor:
        """Return the sum, (T, B, C)."""
        w_other, w_bert = self.weights
        return w_other * other + w_bert * bert

    def extra_repr(self) -> str:
        """Show the weights where a module is printed."""
        return f"weights={self.weights}"


class Gate(nn.Module):
    """g * bert + (1 - g) * other with g = sigmoid(W bert + U other + b), for each position and dimension.

    The dynamic switch of CTNMT (Yang et al., AAAI 2020), here between the branches of a layer.
    """

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.w = nn.Linear(embed_dim, embed_dim)
        self.u = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, other: Tensor, bert: Tensor) -> Tensor:
        """Return the gated sum, (T, B, C)."""
        g = self.bert_share(other, bert)
        return g * bert + (1 - g) * other

    def bert_share(self, other: Tensor, bert: Tensor) -> Tensor:
        """Return g, (T, B, C)."""
        return torch.sigmoid(self.w(bert) + self.u(other))


class Fusion(nn.Module):
    """Both branches, joined by *mix*; under drop-net, in training, one of them alone.

    A branch that drop-net leaves out for the whole batch is not computed.
    """

    def __init__(self, mix: nn.Module, drop_net: DropNet) -> None:
        super().__init__()
        self.mix = mix
        self.drop_net = drop_net

    def forward(
        self,
        other: Callable[[], Tensor],
        bert: Callable[[], Tensor],
        *,
        batch_size: int,
        other_module: nn.Module,
        bert_module: nn.Module,
    ) -> Tensor:
        """Return the joined branches, (T, B, C).

        Args:
            other: computes the NMT branch, (T, B, C).
            bert: computes BERT's branch, (T, B, C).
            batch_size: B.
            other_module: what the NMT branch trains; gets zeros as gradient where the branch is left out.
            bert_module: the same for BERT's branch.
        """
        other_alone, bert_alone = self.drop_net(batch_size)
        if other_alone.all():
            return with_zero_gradients(other(), *bert_module.parameters(), *self.mix.parameters())
        if bert_alone.all():
            return with_zero_gradients(bert(), *other_module.parameters(), *self.mix.parameters())
        from_other, from_bert = other(), bert()
        joined: Tensor = self.mix(from_other, from_bert)
        for alone, branch in ((other_alone, from_other), (bert_alone, from_bert)):
            if alone.any():
                joined = torch.where(alone.to(joined.device).view(1, -1, 1), branch, joined)
        return joined


def with_zero_gradients(x: Tensor, *unused: Tensor) -> Tensor:
    """Return *x*; in the backward pass the tensors *unused* get zeros, as if they had been used times zero.

    DDP needs a gradient for each parameter in each step, and Adam moves a parameter by its momentum even then.
    """
    result: Tensor = _ZeroGradients.apply(x, *unused)
    return result


class _ZeroGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *unused: Tensor) -> Tensor:
        ctx.save_for_backward(*unused)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, ...]:
        return (*gradients, *map(torch.zeros_like, ctx.saved_tensors))
