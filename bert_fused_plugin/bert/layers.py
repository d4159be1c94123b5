"""Which of BERT's layers a model reads, and how the states of several layers become one (``--bert-layer``)."""

from pathlib import Path
from typing import TYPE_CHECKING, Optional, Tuple

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from bert_fused_plugin.bert.pretrained_bert import PretrainedBert

# sentence-transformers writes these files beside config.json
_SIGNS = ("modules.json", "config_sentence_transformers.json")


class ScalarMix(nn.Module):
    """gamma * sum_j softmax(w)_j h_j over the layers, all learned (Peters et al., NAACL 2018, equation 1).

    Args:
        num_layers: number N of layers.
    """

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
    """Return the numbers of the layers that ``--bert-layer`` names; 0 stands for the embeddings.

    Args:
        layers: one number, which counts from the end if it is negative; ``mix`` for all layers and the embeddings;
            ``random:K`` for the last K layers.
        depth: number of BERT's layers.

    Raises:
        ValueError: There is no such layer; the message gives the rule and the value.
    """
    if layers == "mix":
        return tuple(range(depth + 1))
    if layers.startswith("random:"):
        k = layers[len("random:") :]
        if not (k.isascii() and k.isdigit()) or not 1 <= int(k) <= depth:
            raise ValueError(f"random:K must have K in [1, {depth}], got {layers!r}")
        return tuple(range(depth - int(k) + 1, depth + 1))
    try:
        return (range(depth + 1)[int(layers)],)
    except (ValueError, IndexError):
        raise ValueError(
            f"must be in [0, {depth}], or in [-{depth + 1}, -1] from the end, or mix, or random:K, got {layers!r}"
        ) from None


def is_sentence_encoder(name: str) -> bool:
    """Return whether the encoder *name*, a directory or a name on the hub, was trained to represent sentences.

    Of a model of the hub only the files that have been downloaded are seen, so the answer may wrongly be no.
    """
    if Path(name).is_dir():
        return any((Path(name) / sign).is_file() for sign in _SIGNS)
    if name.startswith("sentence-transformers/"):
        return True
    from huggingface_hub import try_to_load_from_cache

    try:
        return any(isinstance(try_to_load_from_cache(name, sign), str) for sign in _SIGNS)
    except ValueError:  # no name that the hub could have
        return False


def advised_layer(depth: int) -> int:
    """Return the layer, at two thirds of the *depth* of an encoder of sentences, that serves translation."""
    return max(1, round(2 * depth / 3))


def last_layer_warning(bert: "PretrainedBert", given: str) -> Optional[str]:
    """Return a warning if *bert* is a frozen encoder of sentences, of which only the last layer is read.

    The last layer of a masked language model tells words apart (Zhu et al. 2020 take it).  That of an encoder of
    sentences, such as MiniLM, was trained to stand for the sentence as a whole (docs/tuning.md has figures).  A BERT
    that trains too can make its last layer fit.

    Args:
        bert: the encoder.
        given: the value of ``--bert-model``.
    """
    advised = advised_layer(bert.depth)
    reads_a_lower_layer = bert.layers != (bert.depth,) or advised == bert.depth
    if bert.saves_weights or reads_a_lower_layer or not is_sentence_encoder(bert.name):
        return None
    return (
        f"--bert-model {given} was trained to represent whole sentences, and the model reads its last layer, which "
        f"serves translation less than a lower one; give --bert-layer {advised} (of {bert.depth}), and see "
        "docs/tuning.md for other choices"
    )
