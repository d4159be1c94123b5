"""The gated recurrent unit of the decoder, with a context in every gate (Bahdanau et al. 2015, appendix A.2.2)."""

from typing import Optional

import torch
from torch import Tensor, nn


class ConditionalGru(nn.Module):
    """One step: s_i = (1 - z_i) * s_{i-1} + z_i * s~_i, from the word before, the context and the state before.

    z_i = sigmoid(W_z e + U_z s_{i-1} + C_z c_i), r_i = sigmoid(W_r e + U_r s_{i-1} + C_r c_i),
    s~_i = tanh(W e + U [r_i * s_{i-1}] + C c_i), e = E y_{i-1}; each with a bias.  What does not depend on the
    state, W e and C c of all positions, is computed outside of the loop; see `RecurrentDecoder`.

    Args:
        input_dim: m, width of e.
        context_dim: width of c; 0 for a unit without context.
        hidden_dim: n.
    """

    def __init__(self, input_dim: int, context_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.input_proj = nn.Linear(input_dim, 3 * hidden_dim)  # W_z, W_r, W
        self.context_proj: Optional[nn.Module] = None
        if context_dim:
            self.context_proj = nn.Linear(context_dim, 3 * hidden_dim, bias=False)  # C_z, C_r, C
        self.gate_proj = nn.Linear(hidden_dim, 2 * hidden_dim, bias=False)  # U_z, U_r
        self.candidate_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)  # U

    def forward(self, inputs: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
        """Return s_i, (B, n).

        Args:
            inputs: W e + C c_i of z, r and s~ side by side, (B, 3n).
            from_state: U_z s_{i-1} and U_r s_{i-1} side by side, (B, 2n).
            state: s_{i-1}, (B, n).
        """
        gates, candidate = inputs.split([2 * self.hidden_dim, self.hidden_dim], dim=-1)
        z, r = torch.sigmoid(gates + from_state).chunk(2, dim=-1)
        new = torch.tanh(candidate + self.candidate_proj(r * state))
        return torch.lerp(state, new, z)
