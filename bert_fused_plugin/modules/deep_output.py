"""The deep output of the recurrent decoder (Bahdanau et al. 2015, appendix A.2.2; Pascanu et al. 2014)."""

from torch import Tensor, nn


class DeepOutput(nn.Module):
    """The maxout layer t_i, the maxima of the pairs of units of t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i + bias.

    The module does not apply C_o itself: the context is a weighted sum of annotations, so the decoder computes C_o h_j
    once for a sentence, and C_o c_i as the weighted sum of these products.

    Args:
        state_dim: the width of s.
        embed_dim: the width of E y.
        context_dim: the width of c.
        output_dim: the width l of t; t~ has 2l units.
        layer_norm: whether s and E y are normalised first.
    """

    def __init__(
        self, state_dim: int, embed_dim: int, context_dim: int, output_dim: int, layer_norm: bool = False
    ) -> None:
        super().__init__()
        self.state_proj = nn.Linear(state_dim, 2 * output_dim)  # U_o
        self.embed_proj = nn.Linear(embed_dim, 2 * output_dim, bias=False)  # V_o
        self.context_proj = nn.Linear(context_dim, 2 * output_dim, bias=False)  # C_o
        self.state_norm = nn.LayerNorm(state_dim) if layer_norm else nn.Identity()
        self.embed_norm = nn.LayerNorm(embed_dim) if layer_norm else nn.Identity()

    def forward(self, state: Tensor, embedded: Tensor, from_context: Tensor) -> Tensor:
        """Return the maxout layer t, (..., l).

        Args:
            state: the decoder's states, (..., n).
            embedded: the embeddings of the previous words, (..., m).
            from_context: the products C_o c, (..., 2l).
        """
        hidden = self.state_proj(self.state_norm(state)) + self.embed_proj(self.embed_norm(embedded)) + from_context
        maximum: Tensor = hidden.unflatten(-1, (-1, 2)).max(dim=-1).values  # the gradient of amax takes twice as long
        return maximum
