"""Write a model with random weights and the architecture and tokenizer of a pre-trained one, as a control.

python examples/random_bert.py MODEL OUTPUT

The weights are drawn as transformers draws them before pre-training.  The seed is 1, so they are always the same.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel

from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
from bert_fused_plugin.files import written_whole


def main(model: str, output: Path) -> None:
    """Write a random model like *model* to *output*, unless that directory exists."""
    if output.is_dir():
        return
    tokenizer = load_tokenizer(model)  # it says what is wrong
    torch.manual_seed(1)
    with written_whole(output) as new:
        tokenizer.save_pretrained(new)
        config = AutoConfig.from_pretrained(model, trust_remote_code=False)
        AutoModel.from_config(config).save_pretrained(new)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
