"""The flags of all models that read BERT's states."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
import math
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Container, Dict, List, Optional, Tuple, get_args, get_type_hints

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from bert_fused_plugin.data.dictionary_bridge import DETOK_CHOICES
from bert_fused_plugin.data.subwords import SUBWORD_CHOICES

# the settings that DictionaryBridge checks with its tables
CHECKED_BY_BRIDGE = ("bert_subword", "bert_detok")

MEAN = (0.5, 0.5)  # the paper's weights of the NMT branch and of BERT's branch


_KINDS: Dict[Any, Tuple[Tuple[type, ...], str]] = {
    bool: ((bool,), "True or False"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
}


@dataclass
class BertFlags(FairseqDataclass):
    """The choice of the pre-trained encoder, of its input, and of the weight of its branch beside the NMT branch."""

    bert_model: Optional[str] = field(
        default=None,
        metadata={
            "help": "The pre-trained encoder: a local directory, or a name on the Hugging Face hub such as "
            "bert-base-uncased. The BERT-fused models require this flag."
        },
    )
    bert_unchecked: bool = field(
        default=False,
        metadata={
            "help": "Also load checkpoints that were trained with another BERT, another tokenizer or other settings."
        },
    )
    bert_subword: ChoiceEnum(SUBWORD_CHOICES) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "The kind of subwords in the source dictionary, which are joined for BERT. With auto the kind is "
            "detected from the dictionary."
        },
    )
    bert_strip_tags: Optional[str] = field(
        default=None,
        metadata={
            "help": "The symbols of the source dictionary that BERT does not read, with commas between them, such as "
            "'<2de>,<2fr>'. A star stands for any text: '<2*>'. The language tags that a task of fairseq adds are "
            "always left out."
        },
    )
    bert_detok: ChoiceEnum(DETOK_CHOICES) = field(  # type: ignore[valid-type]
        default="none",
        metadata={"help": "With moses the Moses tokenisation of the source is undone for BERT."},
    )
    bert_max_tokens: Optional[int] = field(
        default=None,
        metadata={
            "help": "The largest length of BERT's input in word pieces, special tokens included. The rest of a longer "
            "sentence is cut off for BERT only. The default and the maximum are BERT's number of positions, mostly 512."
        },
    )
    bert_context: int = field(
        default=0,
        metadata={"help": "The number of previous sentences of the document that BERT reads before the current one."},
    )
    bert_layer: str = field(
        default="-1",
        metadata={
            "help": "The layer of BERT that the model attends to. Layers are counted from 1, and 0 stands for BERT's "
            "embeddings; negative numbers count from the end, so -1 is the last layer. With mix the model learns a "
            "scalar mix of all layers. With random:K each training batch uses one of the last K layers, and "
            "evaluation uses their mean."
        },
    )
    bert_mask_special_tokens: bool = field(
        default=False, metadata={"help": "Do not attend to BERT's special tokens, such as [CLS] and [SEP]."}
    )
    bert_branch_weights: Optional[str] = field(
        default=None,
        metadata={
            "help": "The weights W_NMT,W_BERT of the NMT branch and of BERT's branch where their sum is "
            "used. The default is the paper's 0.5,0.5, or 1,1 with --bert-identity-start. The authors' "
            "code uses 1,1 if drop-net is off."
        },
    )
    bert_drop_net: Optional[float] = field(
        default=None,
        metadata={
            "help": "The drop-net rate in [0, 1], which is the paper's p_net and twice the authors' flag. The default "
            "is 1.0, or 0 with --bert-identity-start. Only a fusion of two branches has drop-net."
        },
    )
    bert_finetune: bool = field(default=False, metadata={"help": "Train BERT too. Checkpoints then hold its weights."})
    bert_finetune_layers: Optional[int] = field(
        default=None,
        metadata={
            "help": "The number K of BERT's last layers to train with --bert-finetune. The default is all layers and "
            "the embeddings."
        },
    )
    bert_lr_factor: float = field(
        default=0.1,
        metadata={"help": "With --bert-finetune BERT's learning rate is this factor times --lr."},
    )


def bert_flag_errors(cfg: BertFlags) -> List[str]:
    """Return a sentence for each flag that breaks a rule; it names the flag, the rule, the value and a remedy."""
    errors = []
    if cfg.bert_max_tokens is not None and cfg.bert_max_tokens < 3:
        errors.append(
            f"--bert-max-tokens must be at least 3, got {cfg.bert_max_tokens}; leave it out for BERT's own limit"
        )
    if cfg.bert_context < 0:
        errors.append(
            f"--bert-context must be at least 0, got {cfg.bert_context}; with 0 BERT reads each sentence by itself"
        )
    if cfg.bert_drop_net is not None and not 0 <= cfg.bert_drop_net <= 1:
        errors.append(
            f"--bert-drop-net must be in [0, 1], got {cfg.bert_drop_net}; 1.0 was best in the paper, "
            "and 0 turns drop-net off"
        )
    try:
        parse_weights(cfg.bert_branch_weights, default=MEAN)
    except ValueError:
        errors.append(
            "--bert-branch-weights must be two numbers with a comma between them, "
            f"got {cfg.bert_branch_weights!r}; give two finite numbers such as 0.5,0.5"
        )
    given = [
        ("--bert-finetune-layers", cfg.bert_finetune_layers, BertFlags.bert_finetune_layers),
        ("--bert-lr-factor", cfg.bert_lr_factor, BertFlags.bert_lr_factor),
    ]
    errors += [
        f"{flag} is for --bert-finetune, got {value} without it; add --bert-finetune, or leave {flag} out"
        for flag, value, default in given
        if value != default and not cfg.bert_finetune
    ]
    return errors


def kind_errors(cfg: FairseqDataclass) -> List[str]:
    """Return a sentence for each ``bert_*`` setting of *cfg* that is not of its kind.

    The command line reads a flag in its kind, but ``--model-overrides`` takes any value.
    """
    errors = []
    for name, hint in get_type_hints(type(cfg)).items():
        kinds = tuple(kind for kind in get_args(hint) or (hint,) if kind in _KINDS)
        known = tuple(taken for kind in kinds for taken in _KINDS[kind][0])
        if name == "bert_layer":  # a number is a text here
            known += (int,)
        value = vars(cfg).get(name)
        if not name.startswith("bert_") or not kinds or (value is None and type(None) in get_args(hint)):
            continue
        if not isinstance(value, known) or (isinstance(value, bool) and bool not in kinds):
            flag = f"--{name.replace('_', '-')}"
            errors.append(f"{flag} must be {' or '.join(_KINDS[kind][1] for kind in kinds)}, got {value!r}; correct it")
    return errors


def choice_errors(cfg: FairseqDataclass, except_for: Container[str]) -> List[str]:
    """Return a sentence for each setting of *cfg* whose value is none of its choices.

    The command line and YAML files refuse such a value themselves, but ``--model-overrides`` takes any.

    Args:
        cfg: the model's flags.
        except_for: the names of the settings that are checked with their own tables.
    """
    errors = []
    for item in fields(cfg):
        if item.name not in except_for and isinstance(item.type, type) and issubclass(item.type, Enum):
            choices, value = [str(choice) for choice in item.type], vars(cfg)[item.name]
            if str(value) not in choices:
                flag = f"--{item.name.replace('_', '-')}"
                errors.append(f"{flag} must be one of {', '.join(choices)}, got {value}; choose one of them")
    return errors


def parse_weights(weights: Optional[str], default: Tuple[float, float]) -> Tuple[float, float]:
    """Return the two numbers of ``--bert-branch-weights``: the weight of the NMT branch and that of BERT's.

    Args:
        weights: the value of the flag.
        default: the numbers if the flag is not given.

    Raises:
        ValueError: *weights* are not two finite numbers.
    """
    if weights is None:
        return default
    w_nmt, w_bert = (float(weight) for weight in weights.split(","))
    if not (math.isfinite(w_nmt) and math.isfinite(w_bert)):
        raise ValueError
    return w_nmt, w_bert


def weights_text(weights: Tuple[float, float]) -> str:
    """Return two weights as ``--bert-branch-weights`` takes them."""
    return ",".join(f"{weight:.12g}" for weight in weights)


def noted_bert_settings(cfg: BertFlags) -> Dict[str, Any]:
    """Return the settings about BERT that no checkpoint depends on, but whose change is worth a warning."""
    settings: Dict[str, Any] = {"bert_max_tokens": cfg.bert_max_tokens}
    if cfg.bert_finetune:
        settings.update(bert_finetune_layers=cfg.bert_finetune_layers, bert_lr_factor=cfg.bert_lr_factor)
    return settings
