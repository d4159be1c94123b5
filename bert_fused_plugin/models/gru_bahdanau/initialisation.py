"""The first values of the parameters of a recurrent model (``--rnn-init``)."""

from typing import Any

from torch import nn


def initialise(model: Any, kind: str) -> None:
    """Give the parameters of *model*, a `GruModel`, their first values; those that belong to BERT keep theirs.

    In both kinds the recurrent matrices are orthogonal and the biases are zero.  ``paper`` (Bahdanau et al. 2015,
    appendix B.1): W_a and U_a are drawn from N(0, 0.001^2), all other matrices from N(0, 0.01^2), and v_a is zero.
    ``modern``: the rows of embeddings and output matrix are drawn with an expected norm of 1, all other matrices by
    Xavier's rule, and the attention draws its vectors itself.
    """
    for name, parameter in model.named_parameters():
        if name.startswith(("encoder.bert.", "encoder.layer_mix.")):
            continue
        if parameter.dim() == 1:
            if "_norm." not in name:
                nn.init.zeros_(parameter)
        elif "weight_hh" in name or name.endswith(("gate_proj.weight", "candidate_proj.weight")):
            for block in parameter.split(parameter.size(1)):  # one block for each gate
                nn.init.orthogonal_(block)
        else:
            _initialise_matrix(name, parameter, kind)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
    attentions = filter(None, (model.decoder.attention, model.decoder.bert_attention))
    for attention in attentions if kind == "modern" else ():
        attention.initialise_vectors()


def _initialise_matrix(name: str, parameter: nn.Parameter, kind: str) -> None:
    if kind == "paper":
        nn.init.normal_(parameter, std=0.001 if ".attention." in name else 0.01)
    elif "embed_tokens" in name or "output_projection" in name:
        nn.init.normal_(parameter, std=parameter.size(1) ** -0.5)
    else:
        nn.init.xavier_uniform_(parameter)
