"""Chooses the settings of training by the amount of text, the device and the size; docs/tuning.md says why.

python examples/own_data/settings.py PAIRS TOKENS cpu|gpu SIZE
"""

import math
import sys
from typing import Any, Dict

# transformer, fused_arch, gru_arch, lr: the architectures of each size, and the transformer's largest learning rate
SIZES = {
    "tiny": ('("${tiny[@]}")', "bert_fused_tiny", "gru_bahdanau_tiny", 0.005),
    "iwslt": ("(--arch transformer_iwslt_de_en)", "bert_fused_iwslt_de_en", "gru_bahdanau_iwslt_de_en", 0.0005),
    "base": ("(--arch transformer)", "bert_fused", "gru_bahdanau", 0.0007),
}


def choose(pairs: int, tokens: int, device: str, size: str = "auto") -> Dict[str, Any]:
    """Return the settings for a training set, by the names of the recipe's shell variables.

    Args:
        pairs: number of sentence pairs.
        tokens: number of subwords of the target side.
        device: ``cpu`` or ``gpu``; on a CPU trainings are short.
        size: a key of `SIZES`, or ``auto``: by the number of pairs and the device; on a CPU models stay small.
    """
    few = pairs < 5_000  # English-Persian of Tatoeba in docs/results.md
    if size == "auto":
        size = "tiny" if pairs < 10_000 or device == "cpu" else "iwslt" if pairs < 1_000_000 else "base"
    max_tokens = 2048 if few else 4096
    if device == "cpu":
        most, epochs = (1500, 90) if few else (1240, 40)
    else:
        most, epochs = (100_000, 30) if size == "base" else (30_000, 90 if few else 40)
    dropout = 0.1 if pairs >= 1_000_000 or (size == "tiny" and pairs >= 100_000) else 0.3
    # a tenth of the largest number at least; on a GPU, where updates are cheap, the validations end a training
    planned = min(most, max(most // 10, math.ceil(epochs * tokens / max_tokens)))
    updates = planned if device == "cpu" else most
    more = max(1, updates // (3 if few else 2))
    transformer, fused_arch, gru_arch, lr = SIZES[size]
    lr = 0.002 if few and size == "tiny" else lr
    more_lr = lr if lr < 0.001 else lr / 2 if few else 0.7 * lr
    return {
        "size": size,
        "transformer": transformer,
        "fused_arch": fused_arch,
        "gru_arch": gru_arch,
        "gru_sizes": "(--decoder-out-embed-dim 620)" if size == "base" else "()",  # shared embeddings are as wide
        "dropout": 0.4 if few else dropout,
        "max_tokens": max_tokens,  # of a batch
        "updates": updates,  # of the transformer
        "more": more,  # further updates of the control and of the BERT-fused model
        "every": most // 100 if device == "gpu" else 50 if few else 100,  # updates between validations
        "warmup": min(4000, max(20, planned // (7 if lr < 0.003 else 2))),  # updates in which the learning rate rises
        "lr": lr,  # the largest one of the transformer
        "more_warmup": max(10, planned // (24 if few else 16)),  # for the further updates
        "more_lr": more_lr,
        "control_lr": min(0.002, more_lr),  # the control's best one in docs/results.md
        "gru_lr": 0.001 if lr < 0.001 else min(lr, 0.003),  # of recurrent models
    }


def as_shell(settings: Dict[str, Any]) -> str:
    """Return the settings as assignments of shell variables, one a line."""
    values = ((name, f"{value:g}" if isinstance(value, float) else value) for name, value in settings.items())
    return "".join(f"{name}={value}\n" for name, value in values)


if __name__ == "__main__":
    print(as_shell(choose(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])), end="")
