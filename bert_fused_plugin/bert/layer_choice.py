"""Which of BERT's layers a model reads (``--bert-layer``), how several are joined, and which one it should read."""

from contextlib import suppress
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import file_of_model


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


def build_layer_mix(layers: str, count: int) -> Optional[nn.Module]:
    """Return what combines the states of the *count* layers that ``--bert-layer`` names; None for a single layer."""
    if layers == "mix":
        return ScalarMix(count)
    return RandomLayer() if count > 1 else None


def is_sentence_encoder(name: str) -> bool:
    """Return whether the encoder *name*, a directory or a name on the hub, was trained to represent sentences."""
    # sentence-transformers writes this file; where the hub cannot be reached, the answer may wrongly be no
    return name.startswith("sentence-transformers/") or file_of_model(name, "modules.json") is not None


def advised_layer(depth: int) -> int:
    """Return the layer, at two thirds of the *depth* of an encoder of sentences, that serves translation."""
    return max(1, round(2 * depth / 3))


def last_layer_warning(name: str, layers: Tuple[int, ...], depth: int, value: str) -> Optional[str]:
    """Return a warning if *layers* are the last of *name*, an encoder of sentences; *value* is that of the flag."""
    advised = advised_layer(depth)
    if layers != (depth,) or depth == advised or not is_sentence_encoder(name):
        return None
    return (
        f"--bert-model {value} was trained to represent whole sentences, and the model reads its last layer, which "
        f"serves translation less than a lower one; give --bert-layer {advised} (of {depth}), and see "
        "docs/tuning.md for other choices"
    )
