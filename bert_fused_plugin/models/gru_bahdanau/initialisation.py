"""The first values of the parameters of a recurrent model (``--rnn-init``)."""

from typing import Any, Callable, Dict, NamedTuple

from torch import nn

from bert_fused_plugin.modules.recurrent_attention import AdditiveAttention


class Initialisation(NamedTuple):
    """An entry of the table of initialisations."""

    draw_matrix: Callable[[str, nn.Parameter], Any]  # draws a matrix, which is not a recurrent one, with its name
    draws_vectors: bool  # whether v_a is drawn from N(0, 1 / A); otherwise it is zero
    help: str  # in the help of ``--rnn-init``


def initialise(model: Any, kind: str) -> None:
    """Give the parameters of a `GruModel` their first values by a *kind* of the table; those of BERT keep theirs."""
    # in all kinds biases are zero, and recurrent matrices have an orthogonal block for each gate
    draw_matrix, draws_vectors, _ = INITIALISATIONS[kind]
    for name, parameter in model.named_parameters():
        if name.startswith(("encoder.bert.", "encoder.layer_mix.")):
            continue
        if parameter.dim() == 1:
            nn.init.zeros_(parameter)
        elif "weight_hh" in name or name.endswith(("gate_proj.weight", "candidate_proj.weight")):
            for block in parameter.split(parameter.size(1)):
                nn.init.orthogonal_(block)
        else:
            draw_matrix(name, parameter)
    for embedding in (model.encoder.embed_tokens, model.decoder.embed_tokens):
        nn.init.zeros_(embedding.weight[embedding.padding_idx])
    for attention in (model.decoder.attention, model.decoder.bert_attention):
        if draws_vectors and isinstance(attention, AdditiveAttention):
            nn.init.normal_(attention.v, std=attention.v.numel() ** -0.5)


def _draw_by_xavier(name: str, parameter: nn.Parameter) -> None:
    if "embed_tokens" in name or "output_projection" in name:  # rows of an expected norm of 1
        nn.init.normal_(parameter, std=parameter.size(1) ** -0.5)
    else:
        nn.init.xavier_uniform_(parameter)


INITIALISATIONS: Dict[str, Initialisation] = {
    # W_a and U_a are drawn from N(0, 0.001^2), and any other matrix from N(0, 0.01^2) (Bahdanau et al. 2015, B.1), also
    # those of the attention to BERT, which the paper does not have
    "paper": Initialisation(
        lambda name, parameter: nn.init.normal_(parameter, std=0.001 if ".attention." in name else 0.01),
        draws_vectors=False,
        help="the other matrices are drawn from a narrow normal distribution",
    ),
    "modern": Initialisation(_draw_by_xavier, True, "most other matrices are drawn by Xavier's rule"),
}
