"""Which layer of a BERT serves translation, and how wide is it?  Prints both as the shell variables layer and width.

python examples/own_data/bert_facts.py MODEL

The last layer of a masked language model serves (Zhu et al. 2020).  An encoder of sentences was trained so that its
last layer stands for the whole sentence; a layer at two thirds of its depth tells words apart better (docs/tuning.md).
"""

import sys
from contextlib import redirect_stdout

from transformers import AutoConfig

with redirect_stdout(sys.stderr):  # fairseq logs to stdout, and stdout is for the flags
    from bert_fused_plugin.bert.layers import advised_layer, is_sentence_encoder


def main(model: str) -> None:
    """Print ``layer='--bert-layer N'`` for an encoder of sentences, ``layer=''`` otherwise, and ``width=N``."""
    config = AutoConfig.from_pretrained(model)
    layer = f"--bert-layer {advised_layer(config.num_hidden_layers)}" if is_sentence_encoder(model) else ""
    print(f"layer='{layer}'\nwidth={config.hidden_size}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"error: usage: {sys.argv[0]} MODEL")
    main(sys.argv[1])
