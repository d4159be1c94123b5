"""Chooses the settings of training by the amount of text, the device and the size; docs/tuning.md says why.

python examples/own_data/settings.py PAIRS TOKENS cpu|gpu SIZE
"""

import math
import sys
from dataclasses import asdict, dataclass
from typing import Dict, Tuple

AUTO = "auto"  # the size that suits the amount of text and the device
_DEVICES = ("cpu", "gpu")


@dataclass(frozen=True)
class Size:
    """The architectures of one size: fairseq's transformer, BERT-fused, recurrent; and a learning rate for them.

    Attributes:
        transformer: flags of fairseq's transformer.
        fused_arch: the BERT-fused architecture of the same sizes.
        gru_arch: the recurrent architecture of this size class.
        lr: largest learning rate of the transformer.
        gru_sizes: flags that change the sizes of *gru_arch*: where the embeddings are shared with the output matrix,
            both are equally wide.
    """

    transformer: str
    fused_arch: str
    gru_arch: str
    lr: float
    gru_sizes: str = ""


SIZES: Dict[str, Size] = {
    "tiny": Size(
        "--arch transformer --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 "
        "--encoder-attention-heads 4 --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 "
        "--decoder-attention-heads 4",
        "bert_fused_tiny",
        "gru_bahdanau_tiny",
        0.005,
    ),
    "iwslt": Size("--arch transformer_iwslt_de_en", "bert_fused_iwslt_de_en", "gru_bahdanau_iwslt_de_en", 0.0005),
    "base": Size("--arch transformer", "bert_fused", "gru_bahdanau", 0.0007, "--decoder-out-embed-dim 620"),
}


@dataclass(frozen=True)
class Settings:
    """What training takes; the names are those of the recipe's shell variables.

    Attributes:
        size: a key of `SIZES`.
        dropout: rate of dropout.
        max_tokens: tokens in a batch.
        updates: updates of the transformer.
        more: further updates of the control and of the BERT-fused model.
        every: updates between validations.
        warmup: updates over which the learning rate rises.
        lr: largest learning rate of the transformer.
        more_warmup: the same as *warmup*, for the further updates.
        more_lr: the same as *lr*, for the further updates.
        gru_lr: the largest learning rate of recurrent models.
    """

    size: str
    dropout: float
    max_tokens: int
    updates: int
    more: int
    every: int
    warmup: int
    lr: float
    more_warmup: int
    more_lr: float
    gru_lr: float


def choose(pairs: int, tokens: int, device: str, size: str = AUTO) -> Settings:
    """Return the settings for a training set.

    Args:
        pairs: number of sentence pairs.
        tokens: number of subwords of the target side.
        device: ``cpu`` or ``gpu``; on a CPU trainings are short.
        size: a key of `SIZES`, or ``auto``: by the number of pairs and the device; on a CPU models stay small.
    """
    if device not in _DEVICES:
        raise ValueError(f"device must be one of {', '.join(_DEVICES)}, got {device!r}")
    if size not in (AUTO, *SIZES):
        raise ValueError(f"SIZE must be one of {', '.join((AUTO, *SIZES))}, got {size}")
    few = pairs < 10_000  # English-Persian of Tatoeba in docs/results.md
    if size == AUTO:
        size = "tiny" if few or device == "cpu" else "iwslt" if pairs < 1_000_000 else "base"
    max_tokens = 2048 if few else 4096
    most, epochs = _budget(few, device, size)
    updates = min(most, max(most // 10, math.ceil(epochs * tokens / max_tokens)))
    more = max(1, updates // (3 if few else 2))
    lr = 0.002 if few and size == "tiny" else SIZES[size].lr
    return Settings(
        size=size,
        dropout=_dropout(few, pairs, size),
        max_tokens=max_tokens,
        updates=updates,
        more=more,
        every=most // 100 if device == "gpu" else 50 if few else 100,
        warmup=min(4000, max(20, updates // (7 if lr < 0.003 else 2))),
        lr=lr,
        more_warmup=max(10, more // 8),
        more_lr=lr if lr < 0.001 else lr / 2,
        gru_lr=0.001 if lr < 0.001 else min(lr, 0.003),
    )


def _budget(few: bool, device: str, size: str) -> Tuple[int, int]:
    """Return the largest number of updates of the transformer, a tenth of which is the smallest, and its epochs."""
    if few:
        return 1500, 90
    if device == "cpu":
        return 1240, 10
    return (100_000, 30) if size == "base" else (30_000, 40)


def _dropout(few: bool, pairs: int, size: str) -> float:
    if few:
        return 0.4
    return 0.1 if pairs >= 1_000_000 or (size == "tiny" and pairs >= 100_000) else 0.3


def as_shell(settings: Settings) -> str:
    """Return the settings as the assignments of the recipe's shell variables, one a line."""
    values = {name: f"{value:g}" if isinstance(value, float) else value for name, value in asdict(settings).items()}
    size = SIZES[settings.size]
    values.update(transformer=f"({size.transformer})", fused_arch=size.fused_arch)
    values.update(gru_arch=size.gru_arch, gru_sizes=f"({size.gru_sizes})")
    return "".join(f"{name}={value}\n" for name, value in values.items())


def main(pairs: int, tokens: int, device: str, size: str) -> None:
    """Print the settings for a training set; *size* is a key of `SIZES`, or ``auto``."""
    try:
        print(as_shell(choose(pairs, tokens, device, size)), end="")
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
