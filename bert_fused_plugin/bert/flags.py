"""The flags of every model that reads BERT's states."""

# fairseq reads the field types: no `from __future__ import annotations`, no `X | None` in this file.
import math
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from bert_fused_plugin.data.dictionary_bridge import DETOK_CHOICES, SUBWORD_CHOICES


@dataclass
class BertFlags(FairseqDataclass):
    """Which pre-trained encoder, what it reads, and how its branch counts beside the NMT branch."""

    bert_model: Optional[str] = field(
        default=None,
        metadata={
            "help": "pre-trained encoder: a local directory or a name on the Hugging Face hub, "
            "such as bert-base-uncased; required"
        },
    )
    bert_unchecked: bool = field(
        default=False, metadata={"help": "load checkpoints that were trained with another BERT or tokenizer too"}
    )
    bert_subword: ChoiceEnum(SUBWORD_CHOICES) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={"help": "subword marks of the source dictionary, undone for BERT; auto: seen from the dictionary"},
    )
    bert_detok: ChoiceEnum(DETOK_CHOICES) = field(  # type: ignore[valid-type]
        default="none",
        metadata={"help": "moses: undo Moses tokenisation of the source for BERT"},
    )
    bert_max_tokens: Optional[int] = field(
        default=None,
        metadata={
            "help": "longest BERT input in word pieces, special tokens included; the rest of a longer "
            "sentence is cut off for BERT alone; default and maximum: BERT's positions, usually 512"
        },
    )
    bert_context: int = field(
        default=0,
        metadata={"help": "how many previous sentences of the document BERT reads before the current one"},
    )
    bert_layer: str = field(
        default="-1",
        metadata={
            "help": "which of BERT's layers is attended to: 1 to its number of layers, 0 for its embeddings, "
            "or counted from the end: -1 is the last; mix: a learned scalar mix of all; "
            "random:K: one of the last K for each training batch, their mean in evaluation"
        },
    )
    bert_mask_special_tokens: bool = field(
        default=False, metadata={"help": "do not attend to BERT's special tokens, such as [CLS] and [SEP]"}
    )
    bert_branch_weights: Optional[str] = field(
        default=None,
        metadata={
            "help": "W_OTHER,W_BERT: weights of the NMT branch and BERT's where both are used, in parallel fusion; "
            "default: the paper's 0.5,0.5, or 1,1 with --bert-identity-start; the authors' code without drop-net: 1,1"
        },
    )
    bert_drop_net: Optional[float] = field(
        default=None,
        metadata={
            "help": "drop-net rate, the paper's p_net, in [0, 1]; the authors' flag is half of it; default: 1.0, "
            "or 0 with --bert-identity-start; parallel and gated fusion only"
        },
    )
    bert_finetune: bool = field(default=False, metadata={"help": "train BERT too; it is then saved in the checkpoints"})
    bert_finetune_layers: Optional[int] = field(
        default=None,
        metadata={"help": "with --bert-finetune: train only the last K layers; default: all and the embeddings"},
    )
    bert_lr_factor: float = field(
        default=0.1, metadata={"help": "with --bert-finetune: BERT's learning rate is this times --lr"}
    )


def check_bert_flags(cfg: BertFlags) -> List[str]:
    """Return a sentence for each setting of BERT's input that breaks a rule: flag, rule, value, remedy."""
    errors = []
    if cfg.bert_max_tokens is not None and cfg.bert_max_tokens < 3:
        errors.append(
            f"--bert-max-tokens must be at least 3, got {cfg.bert_max_tokens}; leave it out for BERT's own limit"
        )
    if cfg.bert_context < 0:
        errors.append(f"--bert-context must be at least 0, got {cfg.bert_context}; 0 is for sentences by themselves")
    if cfg.bert_drop_net is not None and not 0 <= cfg.bert_drop_net <= 1:
        errors.append(
            f"--bert-drop-net must be in [0, 1], got {cfg.bert_drop_net}; the paper's best is 1.0, 0 turns it off"
        )
    try:
        parse_weights(cfg.bert_branch_weights or "0.5,0.5")
    except ValueError:
        errors.append(
            "--bert-branch-weights must be two numbers with a comma between them, such as 0.5,0.5, "
            f"got {cfg.bert_branch_weights!r}"
        )
    given = [
        ("--bert-finetune-layers", cfg.bert_finetune_layers, None),
        ("--bert-lr-factor", cfg.bert_lr_factor, 0.1),
    ]
    errors += [
        f"{flag} is for --bert-finetune, got {value} without it; add --bert-finetune, or leave it out"
        for flag, value, default in given
        if value != default and not cfg.bert_finetune
    ]
    return errors


def parse_weights(weights: str) -> Tuple[float, float]:
    """Return the two numbers of ``--bert-branch-weights``: of (other, BERT).

    Raises:
        ValueError: it is not two finite numbers.
    """
    other, bert = (float(weight) for weight in weights.split(","))
    if not (math.isfinite(other) and math.isfinite(bert)):
        raise ValueError
    return other, bert
