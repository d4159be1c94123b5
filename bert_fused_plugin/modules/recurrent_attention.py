"""The kinds of attention that a recurrent decoder can have: additive (Bahdanau et al. 2015), dot products, or none.

The table `RECURRENT_ATTENTIONS` is the only list of the kinds.  The choices of ``--attention``, the checks of its flags
and the builder of the decoder's attention are derived from it.
"""

from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Tuple,
)

import torch
from torch import Tensor, nn

from bert_fused_plugin.modules.attention_map import FixedMap, LearnedEntmax, attention_weights_of, build_attention_map
from bert_fused_plugin.modules.attention_steps import AdditiveSteps, AttentionSteps, DotSteps


class RecurrentAttention(Protocol):
    """What a recurrent decoder expects of its attention, which is an ``nn.Module``.

    The decoder applies both projections itself: it projects the keys once for a sentence, and it joins the product
    with the queries' matrix with other products of the state.  Therefore both projections are without bias, and both
    are A wide.
    """

    query_proj: nn.Linear  # W_a, (A, n)
    key_proj: nn.Linear  # U_a, (A, 2n)

    def forward(self, query: Tensor, keys: Tensor, padding_mask: Tensor, coverage: Optional[Tensor] = None) -> Tensor:
        """Return alpha, (B, K, S), the weights of the S positions for each of K queries.

        Args:
            query: the projected queries, (B, K, A).
            keys: the projected keys, (B, S, A).
            padding_mask: the positions that get no weight, (B, S).
            coverage: the sum of alpha over the steps before, (B, K, S).
        """
        ...

    def __call__(self, query: Tensor, keys: Tensor, padding_mask: Tensor, coverage: Optional[Tensor] = None) -> Tensor:
        """Return the value of `forward`."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters, as ``nn.Module`` does."""
        ...

    def initialise_vectors(self) -> None:
        """Draw the vectors that must not begin at zero, such as v_a; a general initialisation sets vectors to zero."""
        ...


class AdditiveAttention(nn.Module):
    """e_ij = v_a^T tanh(W_a s + U_a h_j), alpha_i = softmax over j (Bahdanau et al., ICLR 2015, A.1.2).

    With *coverage* the energy also depends on a_ij, the sum of the attention to position j in the steps before:
    e_ij = v_a^T tanh(W_a s + U_a h_j + w_c a_ij) (See et al., ACL 2017, equation 11).

    Args:
        query_dim: the width of s.
        key_dim: the width of h_j.
        attention_dim: the width A of the alignment model, the paper's n'.
        coverage: whether the energy depends on the attention in the steps before.
        attention_map: the name of the map from energies to weights.
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        attention_dim: int,
        coverage: bool = False,
        attention_map: str = "softmax",
    ) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, attention_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, attention_dim, bias=False)
        self.v = nn.Parameter(torch.empty(attention_dim).uniform_(-0.1, 0.1))
        self.coverage_weight: Optional[nn.Parameter] = None
        if coverage:
            self.coverage_weight = nn.Parameter(torch.empty(attention_dim).uniform_(-0.1, 0.1))
        self.attention_map = build_attention_map(attention_map, num_heads=1)

    def forward(self, query: Tensor, keys: Tensor, padding_mask: Tensor, coverage: Optional[Tensor] = None) -> Tensor:
        """Return alpha, (B, K, S), for K queries of each sentence.

        Args:
            query: the projected queries W_a s, (B, K, A).
            keys: the projected keys U_a h, (B, S, A).
            padding_mask: the positions that get no weight, (B, S).
            coverage: the sum of alpha over the steps before, (B, K, S); only attention with coverage reads it.
        """
        if self.coverage_weight is None:
            needs_gradient = torch.is_grad_enabled()  # in a step of decoding, autograd's own work would show
            energies = (_Energies.apply if needs_gradient else _energies)(query, keys, self.v)
        else:
            assert coverage is not None
            hidden = query.unsqueeze(2) + keys.unsqueeze(1) + coverage.unsqueeze(-1) * self.coverage_weight
            energies = torch.tanh(hidden) @ self.v
        return masked_weights(self.attention_map, energies, padding_mask)

    def initialise_vectors(self) -> None:
        """Draw v_a from N(0, 1 / A)."""
        nn.init.normal_(self.v, std=self.v.numel() ** -0.5)


class DotAttention(nn.Module):
    """alpha_i = softmax(k_j . q_i) over j, with k_j = W_K h_j and q_i = W_Q s.

    Args:
        query_dim: the width of s.
        key_dim: the width of h_j.
        attention_dim: the width A of queries and keys.
        scaled: whether products are divided by the square root of A (Vaswani et al. 2017, equation 1).
        attention_map: the name of the map from products to weights.
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        attention_dim: int,
        scaled: bool = False,
        attention_map: str = "softmax",
    ) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, attention_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, attention_dim, bias=False)
        self.scale = attention_dim**-0.5 if scaled else 1.0
        self.attention_map = build_attention_map(attention_map, num_heads=1)

    def forward(self, query: Tensor, keys: Tensor, padding_mask: Tensor, coverage: Optional[Tensor] = None) -> Tensor:
        """Return alpha, (B, K, S), for K queries of each sentence.

        Args:
            query: the projected queries W_Q s, (B, K, A).
            keys: the projected keys W_K h, (B, S, A).
            padding_mask: the positions that get no weight, (B, S).
            coverage: the sum of alpha over the steps before, (B, K, S); it is not used.
        """
        return masked_weights(self.attention_map, DotSteps(keys, self.scale).energies(query), padding_mask)

    def initialise_vectors(self) -> None:
        """Do nothing, because there are no vectors."""


class AttentionKind(NamedTuple):
    """An entry of the table of attentions.

    Args:
        build: a function that takes the widths of queries, keys and attention, and the flags, and returns the module;
            None for a decoder without attention.
        flags: the flags that the kind knows, each with the keyword by which *build* takes its value.
        help: the description of the kind in the help of ``--attention``.
    """

    build: Optional[Callable[..., RecurrentAttention]]
    flags: Mapping[str, str]
    help: str


RECURRENT_ATTENTIONS: Dict[str, AttentionKind] = {
    "additive": AttentionKind(
        AdditiveAttention,
        {"coverage": "coverage", "attention_map": "attention_map"},
        "v_a^T tanh(W_a s + U_a h_j), as in the paper",
    ),
    "dot": AttentionKind(
        DotAttention,
        {"attention_scaled": "scaled", "attention_map": "attention_map"},
        "dot products of projected states and annotations",
    ),
    "none": AttentionKind(None, {}, "no attention; the encoder's summary is the context of each step"),
}


def attention_kind(kind: str) -> AttentionKind:
    """Return the entry of *kind* in the table.

    Raises:
        ValueError: the table has no such kind.
    """
    if kind not in RECURRENT_ATTENTIONS:
        raise ValueError(f"The attention must be one of {', '.join(RECURRENT_ATTENTIONS)}, got {kind!r}.")
    return RECURRENT_ATTENTIONS[kind]


def build_recurrent_attention(
    kind: str, query_dim: int, key_dim: int, attention_dim: int, flags: Mapping[str, Any]
) -> Optional[RecurrentAttention]:
    """Return a new attention, or None for a decoder without attention.

    Args:
        kind: a key of the table.
        query_dim: the width of the decoder's states.
        key_dim: the width of the annotations.
        attention_dim: the width A of projected queries and keys.
        flags: the values of all flags that the kinds know.

    Raises:
        ValueError: the table has no such kind.
    """
    build, known_flags, _ = attention_kind(kind)
    if build is None:
        return None
    return build(query_dim, key_dim, attention_dim, **{keyword: flags[flag] for flag, keyword in known_flags.items()})


def attention_flags() -> Dict[str, List[str]]:
    """Return, for each flag that belongs to some kinds of attention only, the names of these kinds."""
    kinds_of: Dict[str, List[str]] = {}
    for name, kind in RECURRENT_ATTENTIONS.items():
        for flag in kind.flags:
            kinds_of.setdefault(flag, []).append(name)
    return kinds_of


def attention_steps(attention: RecurrentAttention, keys: Tensor) -> Optional[AttentionSteps]:
    """Return *attention* to *keys* with gradients written by hand; None if it has none.

    They do not cover coverage, which depends on the steps before, and a map that is learned.
    """
    if type(attention) is AdditiveAttention and not isinstance(attention.attention_map, LearnedEntmax):
        return AdditiveSteps(keys, attention.v) if attention.coverage_weight is None else None
    if type(attention) is DotAttention and not isinstance(attention.attention_map, LearnedEntmax):
        return DotSteps(keys, attention.scale)
    return None


def fixed_map(attention: RecurrentAttention) -> Optional[FixedMap]:
    """Return the map of an *attention* for which there are `attention_steps`; None is softmax."""
    assert isinstance(attention, (AdditiveAttention, DotAttention))
    found = attention.attention_map
    assert found is None or isinstance(found, FixedMap)
    return found


def masked_weights(attention_map: Optional[nn.Module], energies: Tensor, padding_mask: Tensor) -> Tensor:
    """Return the weights that a map gives to *energies*, (B, K, S), of positions that are no padding.

    The map computes in fp32; None is softmax.
    """
    energies = energies.masked_fill(padding_mask.unsqueeze(1), -torch.inf)
    return attention_weights_of(attention_map, energies).to(energies.dtype)


def _energies(query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """Return the energies v^T tanh(query + keys), (B, K, S), from queries (B, K, A), keys (B, S, A) and v (A)."""
    return AdditiveSteps(keys, v).energies(query)


class _Energies(torch.autograd.Function):
    """The value of `_energies`, and its gradients."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys, v)
        return _energies(query, keys, v)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, ...]:
        query, keys, v = ctx.saved_tensors
        steps = AdditiveSteps(keys, v)
        return (steps.backward(query, gradients[0]), *steps.gradients(query, gradients[0]))
