"""The decoder's gated recurrent unit, whose gates all read the context (Bahdanau et al. 2015, appendix A.2.2)."""

from typing import Optional

import torch
from torch import Tensor, nn


class ConditionalGru(nn.Module):
    """One step: s_i = (1 - z_i) * s_{i-1} + z_i * s~_i, from the previous word, the context and the previous state.

    z_i = sigmoid(W_z e + U_z s_{i-1} + C_z c_i), r_i = sigmoid(W_r e + U_r s_{i-1} + C_r c_i),
    s~_i = tanh(W e + U [r_i * s_{i-1}] + C c_i), where e = E y_{i-1}; each of the three has a bias.  The unit does not
    apply W, C, U_z and U_r itself, because the decoder can compute these products for many positions at once.

    Args:
        input_dim: the width m of e.
        context_dim: the width of c; 0 for a unit without context.
        hidden_dim: the width n of s.
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
        """Return the new state s_i, (B, n).

        Args:
            inputs: the sums W e + C c_i for z, r and s~, side by side, (B, 3n).
            from_state: the products U_z s_{i-1} and U_r s_{i-1}, side by side, (B, 2n).
            state: the previous state s_{i-1}, (B, n).
        """
        gates, candidate = inputs.split([2 * self.hidden_dim, self.hidden_dim], dim=-1)
        z, r = torch.sigmoid(gates + from_state).chunk(2, dim=-1)
        new = torch.tanh(candidate + self.candidate_proj(r * state))
        return torch.lerp(state, new, z)
