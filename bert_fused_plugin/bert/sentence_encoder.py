"""Encoders that were trained to represent a whole sentence, such as MiniLM, and the layer of them that serves best.

The last layer of a masked language model tells words apart (Zhu et al. 2020 take it).  The last layer of an encoder of
sentences was trained so that it stands for the sentence as a whole (docs/tuning.md has figures).
"""

from pathlib import Path
from typing import Optional

from bert_fused_plugin.bert.pretrained_bert import PretrainedBert

# sentence-transformers writes these files beside config.json
_SIGNS = ("modules.json", "config_sentence_transformers.json")
_OF_THE_HUB = "sentence-transformers/"


def is_sentence_encoder(name: str) -> bool:
    """Return whether the encoder *name*, a directory or a name on the hub, was trained to represent sentences.

    Of a model of the hub only the files that have been downloaded are seen, so the answer may wrongly be no.
    """
    if Path(name).is_dir():
        return any((Path(name) / sign).is_file() for sign in _SIGNS)
    if name.startswith(_OF_THE_HUB):
        return True
    from huggingface_hub import try_to_load_from_cache

    try:
        return any(isinstance(try_to_load_from_cache(name, sign), str) for sign in _SIGNS)
    except ValueError:  # no name that the hub could have
        return False


def advised_layer(depth: int) -> int:
    """Return the layer, at two thirds of the *depth* of an encoder of sentences, that serves translation."""
    return max(1, round(2 * depth / 3))


def last_layer_warning(bert: PretrainedBert, given: str) -> Optional[str]:
    """Return a warning if the frozen *bert* is an encoder of sentences of which only the last layer is read.

    A BERT that trains too can make its last layer fit.

    Args:
        bert: the encoder.
        given: the value of ``--bert-model``.
    """
    advised = advised_layer(bert.depth)
    if bert.saves_weights or bert.layers != (bert.depth,) or advised == bert.depth:
        return None
    if not is_sentence_encoder(bert.name):
        return None
    return (
        f"--bert-model {given} was trained to represent whole sentences, and the model reads its last layer, which "
        f"serves translation less than a lower one; give --bert-layer {advised} (of {bert.depth}), and see "
        "docs/tuning.md for other choices"
    )
