"""Which layer of a BERT serves translation?  Prints the flags for it.

python examples/own_data/bert_layer.py MODEL

The last layer of a masked language model serves (Zhu et al. 2020).  An encoder of sentences was trained so that its
last layer stands for the whole sentence; a layer at two thirds of its depth tells words apart better (docs/tuning.md).
"""

import sys
from pathlib import Path

from transformers import AutoConfig

_OF_SENTENCE_TRANSFORMERS = ("modules.json", "config_sentence_transformers.json")


def main(model: str) -> None:
    """Print ``--bert-layer N`` for an encoder of sentences, and nothing otherwise."""
    if any((Path(model) / name).is_file() for name in _OF_SENTENCE_TRANSFORMERS):
        depth = AutoConfig.from_pretrained(model).num_hidden_layers
        print(f"--bert-layer {max(1, round(2 * depth / 3))}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"error: usage: {sys.argv[0]} MODEL")
    main(sys.argv[1])
