"""The settings of a recipe, and the sizes of models, as tables."""

import re
import shlex
from argparse import ArgumentTypeError, Namespace
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence

from bert_fused_lab.arguments import given_path
from bert_fused_lab.recipe.subwords import KINDS
from bert_fused_plugin.errors import flag_name
from bert_fused_plugin.models.presets import TINY

SPLIT_BEFORE = "none"  # of --subwords


@dataclass(frozen=True)
class Size:
    """Architectures, and the rates and (greatest) lengths of their trainings (docs/tuning.md)."""

    transformer: str  # its flags
    fused_arch: str  # BERT-fused's architecture, of the same sizes
    gru: str  # flags of the recurrent models, for shared embeddings
    updates: int  # of a training from random parameters
    warmup: int
    lr: float
    gru_lr: float  # of the recurrent models
    more: int  # updates of a training that begins with the transformer's parameters
    more_warmup: int
    more_lr: float
    control_lr: float  # the same of the control
    every: int  # updates between validations; ten of these are a few epochs, and warm-ups end before the first one


_TINY = " ".join(["--arch transformer", *(f"{flag_name(name)} {value}" for name, value in TINY.items())])
SIZES = {
    # as docs/results.md has them; up to 40,000 pairs of Tatoeba, trainings end before these numbers of updates
    "tiny": Size(_TINY, "bert_fused_tiny", "--arch gru_bahdanau_tiny",
        10_000, 500, 0.005, 0.003, 10_000, 100, 0.0035, 0.002, 100),
    "iwslt": Size("--arch transformer_iwslt_de_en", "bert_fused_iwslt_de_en", "--arch gru_bahdanau_iwslt_de_en",
        30_000, 4000, 0.0005, 0.001, 15_000, 300, 0.0005, 0.0005, 1000),
    "base": Size("--arch transformer", "bert_fused", "--arch gru_bahdanau --decoder-out-embed-dim 620",
        100_000, 4000, 0.0007, 0.001, 50_000, 1000, 0.0007, 0.0007, 4000),
}  # fmt: skip


def size_for(args: Namespace, pairs: int, gpu: bool, start: Optional[Size] = None) -> Size:
    """Return the size for so many *pairs* of training text, with what *args* have of it.

    Where a pre-trained model is fine-tuned, it is that of *start*; otherwise, later calls keep the one chosen here.
    """
    if start is None and args.size == "auto":
        by_text = "base" if pairs >= 1_000_000 else "iwslt"
        args.size = by_text if gpu and pairs >= 10_000 else "tiny"
    changes = {key: vars(args)[key] for key in ("updates", "more", "warmup", "lr") if vars(args)[key]}
    return replace(start or SIZES[args.size], **{**args.of_size, **changes})


def dropout_for(size: Size, pairs: int) -> float:
    """Return the dropout: less of it with much text."""
    return 0.1 if pairs >= (100_000 if size.fused_arch == SIZES["tiny"].fused_arch else 1_000_000) else 0.3


def _whole(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d*", text):
        raise ArgumentTypeError(f"must be a whole number, at least 1, got {text!r}")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < inf:
        raise ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return rate


def _seeds(text: str) -> List[int]:
    words = text.replace(",", " ").split()
    if not words or not all(re.fullmatch(r"0|[1-9]\d*", word) for word in words):
        raise ArgumentTypeError(f"must be whole numbers, such as 1,2,3, got {text!r}")
    if len(set(words)) < len(words):
        raise ArgumentTypeError(f"must be different, since each counts as a training of its own, got {text!r}")
    return list(map(int, words))


def _student(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*\+[1-9]\d*|transformer", text):
        raise ArgumentTypeError(f"must be transformer, or ENCODER+DECODER layers, such as 6+2, got {text!r}")
    return text


def _directory(text: str) -> Path:
    return given_path(text).resolve()


def _model(text: str) -> str:
    """Return a directory of BERT as it is named from anywhere, or the name on the hub."""
    return str(given_path(text).resolve()) if given_path(text).is_dir() else text


def _one_of(*choices: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in choices:  # argparse checks no choices of a default, which the environment may set
            raise ArgumentTypeError(f"must be one of {', '.join(choices)}, got {text!r}")
        return text

    return check


# the options: name, type, default, and help
OPTIONS: Sequence[Any] = (
    ("out", given_path, "own_data-out", "DIR", "directory of everything that is made; each data set needs its own; "
        "default: %(default)s"),
    ("bert", _model, None, "NAME", "pre-trained encoder: a directory, a name on the hub, or minilm, a small English "
        "one from the package index; default: that of earlier calls; at first, for English bert-base-cased on a GPU "
        "with a hub in reach, otherwise minilm; for other languages bert-base-multilingual-cased (docs/encoders.md)"),
    ("bert-text", _directory, None, "DIR", "the source text as BERT must read it, such as segmented into words: "
        "train.SRC, and valid.SRC and test.SRC if DATA has them, with the same lines as in DATA"),
    ("mono", _directory, None, "DIR", "directory of mono.TGT, one sentence a line, which a model of the other "
        "direction translates.  All systems learn from it, too, in OUT/mono; the report calls them SYSTEM_mono, and "
        "has those of OUT, too.  Not with --bert-text"),
    ("reverse", _model, None, "MODEL", "with --mono: a pre-trained model of the other direction that translates "
        "mono.TGT as it is, such as Helsinki-NLP/opus-mt-fr-en for en fr: a directory, an import of bert-fused-import "
        "hf, or a name on the hub; default: one is trained"),
    ("bert-flags", shlex.split, "", "FLAGS", "further flags about BERT, such as --bert-tokenizer-options, or "
        "'--bert-layer 8' instead of the last layer, or of that at two thirds of the depth of a sentence encoder; "
        "default: as in earlier calls"),
    ("start", _model, None, "MODEL", "pre-trained translation model to fine-tune instead of training one: OPUS-MT, "
        "M2M100, NLLB or mBART-50, a directory or a name on the hub; transformer is then this model as it is (in the "
        "report: as_downloaded), and control and bert_fused are fine-tuned without and with BERT"),
    ("subwords", _one_of(*KINDS, SPLIT_BEFORE), KINDS[0], "KIND", "sentencepiece, subword-nmt, or none: DATA is split "
        "already, and has valid and test; default: %(default)s"),
    ("symbols", _whole, None, "N", "number of subwords; default by the amount of text: 2000 to 32000, or more for many "
        "different characters"),
    ("size", _one_of("auto", *SIZES), "auto", "SIZE", "sizes of the models, from which other settings follow: tiny, "
        "iwslt or base; default: as in earlier calls, or by the amount of text and the device"),
    ("updates", _whole, None, "N", "most updates of the transformer; default: as in earlier calls, or by the size "
        "10000, 30000 or 100000"),
    ("more", _whole, None, "N", "most updates of what begins with the transformer's parameters; default: as in earlier "
        "calls, or by the size 10000, 15000 or 50000, and with --start 40000"),
    ("warmup", _whole, None, "N", "warm-up of trainings from random parameters; default: as in earlier calls, or "
        "by the size 500 or 4000"),
    ("lr", _rate, None, "RATE", "learning rate of these, except for the recurrent models; default: as in earlier "
        "calls, or by the size 0.005, 0.0005 or 0.0007"),
    ("seeds", _seeds, "1", "SEEDS", "such as 1,2,3: all is trained with the first seed and compared, then with the "
        "next one in OUT/seed-2, and so on; default: %(default)s"),
    ("teacher", str.split, "bert_fused", "SYSTEMS", "systems that distill lets translate, several as an ensemble; "
        "default: %(default)s"),
    ("student", _student, "transformer", "KIND", "the transformer, fine-tuned, or layers of the encoder and decoder of "
        "a new one, such as 6+2; default: %(default)s"),
    ("deploy", str, "student", "SYSTEM", "system that the step deploy converts; default: %(default)s"),
    ("baseline", str, None, "SYSTEM", "what all others are compared with; default: control, control_r_drop or "
        "transformer, the first that is there"),
    ("consistency", _one_of("none", "simcut", "r-drop"), "none", "KIND", "none, simcut or r-drop: the loss of every "
        "training, also the transformer's, which learns more slowly with it; an update takes twice the time; default: "
        "as in earlier calls, or none"),
    ("cache-gb", float, None, "GB", "disk that BERT's states may take, 0 for no cache; default: as in earlier calls, "
        "or half of what was free.  If those of one layer need more, BERT runs in every step.  The states of several "
        "layers, and those of random_bert, are not counted"),
    ("train-flags", shlex.split, "", "FLAGS", "for every fairseq-train, such as --cpu, or '--bf16 --update-freq 2'; on "
        "a GPU, --fp16 is added unless --bf16, --amp or --cpu is there; default: as in earlier calls"),
)  # fmt: skip
KEPT = "kept.json"  # in OUT: the settings of the last training, which are the defaults of later calls, and cache_gb
SHARED = ("bert_flags", "size", "updates", "more", "warmup", "lr", "consistency", "train_flags")  # the names of these
# What a file of --settings may also set, beside the values of `Size`: the steps that are run by default, the program
# that makes or fetches the text, further flags of each fairseq-train, those of BERT-fused models that
# begin with the transformer, and those of the translation of the test set.
MORE = ("default_steps", "script", "training", "fused_start", "scoring")
