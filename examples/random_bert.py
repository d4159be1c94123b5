"""A model of the same architecture and tokenizer as another, with random weights: the control of a pre-trained one.

python examples/random_bert.py MODEL OUTPUT

The weights are drawn as transformers draws them before pre-training, always the same ones (seed 1).
"""

import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer


def main(model: str, output: str) -> None:
    """Write MODEL's random counterpart to OUTPUT, if it is not there."""
    if (Path(output) / "config.json").exists():
        return
    torch.manual_seed(1)
    AutoTokenizer.from_pretrained(model).save_pretrained(output)
    AutoModel.from_config(AutoConfig.from_pretrained(model)).save_pretrained(output)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"error: usage: {sys.argv[0]} MODEL OUTPUT")
    main(*sys.argv[1:])
