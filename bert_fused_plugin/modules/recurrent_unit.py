"""The recurrent decoder's unit and its deep output (Bahdanau et al. 2015, appendix A.2.2)."""

import torch
from torch import Tensor, nn


class ConditionalGru(nn.Module):
    """The gated recurrent unit, whose gates all read the context: s_i = (1 - z_i) * s_{i-1} + z_i * s~_i.

    z_i = sigmoid(W_z e + U_z s_{i-1} + C_z c_i), r_i = sigmoid(W_r e + U_r s_{i-1} + C_r c_i),
    s~_i = tanh(W e + U [r_i * s_{i-1}] + C c_i), where e = E y_{i-1}; each of the three has a bias.  The decoder
    applies W, C, U_z and U_r, for many positions at once.  The width of e is *input_dim*, m; that of s is n.
    """

    def __init__(self, input_dim: int, context_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.input_proj = nn.Linear(input_dim, 3 * hidden_dim)  # W_z, W_r, W
        self.context_proj = nn.Linear(context_dim, 3 * hidden_dim, bias=False)  # C_z, C_r, C
        self.gate_proj = nn.Linear(hidden_dim, 2 * hidden_dim, bias=False)  # U_z, U_r
        self.candidate_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)  # U

    def forward(self, inputs: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
        """Return the new state s_i, (B, n), from the previous *state*, (B, n).

        The *inputs* are the sums W e + C c_i for z, r and s~, side by side, (B, 3n), and *from_state* are the products
        U_z s_{i-1} and U_r s_{i-1}, (B, 2n).
        """
        gates, candidate = inputs.split([2 * self.hidden_dim, self.hidden_dim], dim=-1)
        z, r = torch.sigmoid(gates + from_state).chunk(2, dim=-1)
        new = torch.tanh(candidate + self.candidate_proj(r * state))
        return torch.lerp(state, new, z)


class DeepOutput(nn.Module):
    """The maxout layer: t_i has the maximum of each pair in t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i + bias.

    It is a deep output (Pascanu et al. 2014).  The decoder applies V_o, and C_o to the annotations once for a sentence.
    The width of t is *output_dim*, l; t~ has 2l units.
    """

    def __init__(self, state_dim: int, embed_dim: int, context_dim: int, output_dim: int) -> None:
        super().__init__()
        self.state_proj = nn.Linear(state_dim, 2 * output_dim)  # U_o
        self.embed_proj = nn.Linear(embed_dim, 2 * output_dim, bias=False)  # V_o
        self.context_proj = nn.Linear(context_dim, 2 * output_dim, bias=False)  # C_o

    def forward(self, state: Tensor, inputs: Tensor) -> Tensor:
        """Return the maxout layer t, (..., l), of states, (..., n), and *inputs*, V_o e + C_o c, (..., 2l)."""
        hidden = self.state_proj(state) + inputs
        return hidden.unflatten(-1, (-1, 2)).max(dim=-1).values  # the gradient of amax takes twice as long
