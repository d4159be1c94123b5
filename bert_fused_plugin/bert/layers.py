"""BERT's states as the encoder of a model reads them, and which of BERT's layers they are of (``--bert-layer``)."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.errors import BertFusedError

if TYPE_CHECKING:
    from bert_fused_plugin.bert.pretrained_bert import PretrainedBert


def read_bert(
    encoder: Any, src_tokens: Tensor, bert_tokens: Optional[Tensor], bert_out: Optional[Tensor], dtype: torch.dtype
) -> Tuple[Tensor, Tensor]:
    """Return H_B = BERT(x), (B, L, D), in *dtype*, and its padding mask, (B, L).

    Args:
        encoder: the encoder, with its ``bert``, ``bridge``, ``layer_mix`` and ``mask_special_tokens``.
        src_tokens: source tokens, (B, S).
        bert_tokens: BERT's input, (B, L); default: derived from *src_tokens*.
        bert_out: BERT's states for *bert_tokens*, (B, L, N x D), from the cache; default: computed.
        dtype: number format of the model.

    Raises:
        BertFusedError: The batch does not have the context that BERT must read, or half precision cannot hold
            the states.
    """
    bert_tokens, bert_out = bert_states(encoder, src_tokens, bert_tokens, bert_out)
    bert_out, bert_padding_mask = bert_out.to(dtype), bert_tokens.eq(BERT_PAD)
    # under --amp the parameters are in single precision, and CUDA's autocast turns the states to half precision later
    if dtype == torch.float16 or torch.is_autocast_enabled():
        encoder.bert.check_half_range(bert_out)
    if encoder.mask_special_tokens:
        for special in encoder.bridge.special_tokens:  # two or three; a tensor of them would be a copy to the device
            bert_padding_mask = bert_padding_mask | bert_tokens.eq(special)
        bert_padding_mask[:, 0] &= ~bert_padding_mask.all(dim=1)  # an empty sentence keeps its first one
    if encoder.layer_mix is not None:
        bert_out = encoder.layer_mix(bert_out.unflatten(-1, (-1, encoder.bert.dim)))
    return bert_out.contiguous(), bert_padding_mask


def read_once(encoder: Any, net_input: Dict[str, Any]) -> Dict[str, Any]:
    """Return *net_input* with BERT's tokens and states, if *encoder* reads a frozen BERT.

    A BERT that trains is read by its model, in the mode and without the graph that fairseq sets.
    """
    if not hasattr(encoder, "bert") or encoder.bert is None or encoder.bert.saves_weights:
        return net_input
    tokens, states = bert_states(encoder, **net_input)
    return {**net_input, "bert_tokens": tokens, "bert_out": states}


def bert_states(
    encoder: Any, src_tokens: Tensor, bert_tokens: Optional[Tensor] = None, bert_out: Optional[Tensor] = None, **_: Any
) -> Tuple[Tensor, Tensor]:
    """Return ``bert_tokens``, (B, L), and ``bert_out``, (B, L, N x D), of a batch that may lack one or both.

    The arguments, which may be all of ``net_input``, and the error are those of `read_bert`.
    """
    bridge = encoder.bridge
    if bert_tokens is None:
        if bridge.context:
            raise BertFusedError(
                f"--bert-context {bridge.context} needs the sentences before the current one, and a batch of this "
                "task does not bring them; use --task bert_fused_translation"
            )
        bert_tokens = bridge.bert_tokens(src_tokens)
    if bert_out is None:
        bert_out = encoder.bert(bert_tokens, bridge.segments(bert_tokens))
    return bert_tokens, bert_out


class ScalarMix(nn.Module):
    """gamma * sum_j softmax(w)_j h_j over *num_layers* layers, all learned (Peters et al., NAACL 2018, equation 1)."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(num_layers))
        self.gamma = nn.Parameter(torch.ones(1))

    def forward(self, states: Tensor) -> Tensor:
        """Return the mixture, (B, L, D), of *states*, (B, L, N, D)."""
        weights = torch.softmax(self.w.float(), dim=0).to(states.dtype)
        return self.gamma.to(states.dtype) * torch.einsum("n,blnd->bld", weights, states)


class RandomLayer(nn.Module):
    """One layer, which is drawn for each batch, in training; the mean of all layers in evaluation.

    This is the stochastic layer selection of BiBERT (Xu et al., EMNLP 2021); the mean is its expectation.
    """

    def forward(self, states: Tensor) -> Tensor:
        """Return one layer's states or the mean, (B, L, D), of *states*, (B, L, N, D)."""
        if self.training:
            return states[:, :, int(torch.randint(states.size(2), ()))]
        return states.mean(dim=2)


def build_layer_mix(layers: str, bert: "PretrainedBert") -> Optional[nn.Module]:
    """Return the module that combines the states of the *layers* of ``--bert-layer``; None for a single layer."""
    if layers == "mix":
        return ScalarMix(len(bert.layers))
    return RandomLayer() if len(bert.layers) > 1 else None


def layer_indices(layers: str, depth: int) -> Tuple[int, ...]:
    """Return the numbers of those of BERT's *depth* layers that ``--bert-layer`` names; 0 stands for the embeddings.

    Raises:
        BertFusedError: There is no such layer.
    """
    with suppress(ValueError, IndexError):
        if layers == "mix":
            return tuple(range(depth + 1))
        if not layers.startswith("random:"):
            return (range(depth + 1)[int(layers)],)
        k = int(layers[len("random:") :])
        if 1 <= k <= depth:
            return tuple(range(depth - k + 1, depth + 1))
    raise BertFusedError(
        f"--bert-layer must be in [0, {depth}], or in [-{depth + 1}, -1] from the end, or mix, or random:K with K in "
        f"[1, {depth}], got {layers!r}; give a layer of --bert-model"
    )


def is_sentence_encoder(name: str) -> bool:
    """Return whether the encoder *name*, a directory or a name on the hub, was trained to represent sentences.

    sentence-transformers writes a file that says so, which loading the encoder does not fetch.  Where the hub cannot
    be reached, the answer may wrongly be no.
    """
    from transformers.utils import cached_file

    quiet = {f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors", "gated_repo")}
    return name.startswith("sentence-transformers/") or cached_file(name, "modules.json", **quiet) is not None


def advised_layer(depth: int) -> int:
    """Return the layer, at two thirds of the *depth* of an encoder of sentences, that serves translation."""
    return max(1, round(2 * depth / 3))


def last_layer_warning(bert: "PretrainedBert", given: str) -> Optional[str]:
    """Return a warning if *bert*, *given* as ``--bert-model``, is an encoder of sentences read at its last layer.

    The last layer of a masked language model tells words apart (Zhu et al. 2020 take it).  That of an encoder of
    sentences, such as MiniLM, was trained to stand for the sentence as a whole (docs/tuning.md has figures).  A BERT
    that trains too can make its last layer fit.
    """
    advised = advised_layer(bert.depth)
    reads_last = bert.layers == (bert.depth,) != (advised,)
    if bert.saves_weights or not reads_last or not is_sentence_encoder(bert.name):
        return None
    return (
        f"--bert-model {given} was trained to represent whole sentences, and the model reads its last layer, which "
        f"serves translation less than a lower one; give --bert-layer {advised} (of {bert.depth}), and see "
        "docs/tuning.md for other choices"
    )
