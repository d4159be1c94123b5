"""Write a model with random weights and the architecture and tokenizer of a pre-trained one, as a control.

python examples/random_bert.py MODEL OUTPUT

The weights are drawn as transformers draws them before pre-training.  The seed is 1, so they are always the same.
"""

import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer


def main(model: str, output: Path) -> None:
    """Write a random model like *model* to *output*, unless that directory exists."""
    if output.is_dir():
        return
    if output.exists():
        raise SystemExit(f"error: {output} is not a directory; give another OUTPUT")
    try:
        tokenizer, config = AutoTokenizer.from_pretrained(model), AutoConfig.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {model} cannot be loaded ({' '.join(str(error).split())[:200]})") from None
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        new = Path(folder) / "model"
        tokenizer.save_pretrained(new)
        AutoModel.from_config(config).save_pretrained(new)
        new.rename(output)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"error: usage: {sys.argv[0]} MODEL OUTPUT")
    main(sys.argv[1], Path(sys.argv[2]))
