"""The deep output of the recurrent decoder (Bahdanau et al. 2015, appendix A.2.2; Pascanu et al. 2014)."""

from torch import Tensor, nn


class DeepOutput(nn.Module):
    """t_i = max of pairs of t~_i, with t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i and a bias.

    As the context is a weighted sum, C_o c_i is one of the products C_o h_j that are made once for a sentence.

    Args:
        state_dim: width of s.
        embed_dim: width of E y.
        context_dim: width of c.
        output_dim: l; t~ has 2l units.
        layer_norm: normalise s and E y first.
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
        """Return t, (..., l), of *state*, (..., n), *embedded*, (..., m), and *from_context*, C_o c, (..., 2l)."""
        hidden = self.state_proj(self.state_norm(state)) + self.embed_proj(self.embed_norm(embedded)) + from_context
        maximum: Tensor = hidden.unflatten(-1, (-1, 2)).amax(dim=-1)
        return maximum
