"""Which layer of a BERT serves translation, and how wide is it?  Can it be loaded at all?

python examples/own_data/bert_facts.py MODEL                  prints the shell variables layer and width
python examples/own_data/bert_facts.py MODEL WHY [FLAG]...    loads tokenizer and encoder, and prints what they are

WHY says why this encoder is taken.  Of the training's flags, --bert-layer and --bert-tokenizer-options are tried.

The last layer of a masked language model serves (Zhu et al. 2020).  An encoder of sentences was trained so that its
last layer stands for the whole sentence; a layer at two thirds of its depth tells words apart better (docs/tuning.md).
"""

import argparse
import sys
from contextlib import redirect_stdout
from typing import Sequence

from transformers import AutoConfig

with redirect_stdout(sys.stderr):  # fairseq logs to stdout, and stdout is for the flags
    from bert_fused_plugin.bert.flags import parse_options
    from bert_fused_plugin.bert.frozen_bert import FrozenBert
    from bert_fused_plugin.bert.layer_choice import advised_layer, is_sentence_encoder
    from bert_fused_plugin.bert.pretrained_bert import load_tokenizer


def main(model: str) -> None:
    """Print ``layer='--bert-layer N'`` for an encoder of sentences, ``layer=''`` otherwise, and ``width=N``."""
    try:
        config = AutoConfig.from_pretrained(model, trust_remote_code=False)
    except (OSError, ValueError) as error:
        sys.exit(f"error: BERT={model} cannot be loaded: {' '.join(str(error).split())}")
    layer = f"--bert-layer {advised_layer(config.num_hidden_layers)}" if is_sentence_encoder(model) else ""
    print(f"layer='{layer}'\nwidth={config.hidden_size}")


def describe(model: str, why: str, flags: Sequence[str]) -> None:
    """Load *model* as a training with the *flags* would, and print what it is and *why* it is taken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bert-layer")
    parser.add_argument("--bert-tokenizer-options")
    given, _ = parser.parse_known_args(flags)
    tokenizer = load_tokenizer(model, parse_options(given.bert_tokenizer_options))
    bert = FrozenBert.from_pretrained(model, given.bert_layer or "-1")
    layer = given.bert_layer or (advised_layer(bert.depth) if is_sentence_encoder(model) else bert.depth)
    kind = "fast" if tokenizer.is_fast else "slow, written in Python"
    longest = min(bert.max_positions, int(tokenizer.model_max_length))
    print(
        f"own_data: BERT is {model} ({why}): {type(bert.model).__name__} of {bert.num_parameters:,} parameters, "
        f"layer {layer} of {bert.depth}, width {bert.dim}; {type(tokenizer).__name__} ({kind}); at most {longest:,} "
        "word pieces"
    )


if __name__ == "__main__":
    if sys.argv[2:]:
        describe(sys.argv[1], sys.argv[2], sys.argv[3:])
    else:
        main(sys.argv[1])
