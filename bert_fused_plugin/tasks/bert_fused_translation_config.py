"""Flags of the task ``bert_fused_translation``."""

from dataclasses import dataclass, field
from math import inf
from typing import Any, List, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig

from bert_fused_plugin.data.feature_cache import CACHE_DTYPES


@dataclass
class BertFusedTranslationConfig(TranslationConfig):
    """All flags of fairseq's translation task, and where BERT's text is."""

    bert_text: Optional[str] = field(
        default=None,
        metadata={
            "help": "directory with the raw source text for BERT, DIR/{split}.{lang}, one sentence a line; as many, "
            "joined by colons, as there are data directories; "
            "default: derived from the binarised data"
        },
    )
    bert_documents: Optional[str] = field(
        default=None,
        metadata={
            "help": "directory with DIR/{split}.docs for --bert-context: the line number, from 0, of the first "
            "sentence of each document; default: documents end at blank lines"
        },
    )
    bert_cache: Optional[str] = field(
        default=None,
        metadata={
            "help": "directory that keeps BERT's states: computed once for each sentence, then read by all runs "
            "with the same BERT; default: BERT runs in every step"
        },
    )
    bert_cache_dtype: ChoiceEnum(CACHE_DTYPES) = field(  # type: ignore[valid-type]
        default="fp16", metadata={"help": "number format of the cached states"}
    )
    bert_cache_limit: Optional[float] = field(
        default=None,
        metadata={
            "help": "GB that the states which a run keeps may take; for the other sentences BERT runs in every step"
        },
    )


def unusable_flags(cfg: BertFusedTranslationConfig, model: Any) -> List[str]:
    """Return what is wrong with *cfg* for a *model* that reads BERT, a line for each problem."""
    errors = []
    if cfg.bert_cache == "":
        errors.append("--bert-cache is empty, as where a variable is not set; give a directory, or leave it out")
    if cfg.bert_cache is not None and model.cfg.bert_finetune:
        errors.append(
            f"--bert-cache {cfg.bert_cache} keeps the states of a frozen BERT, which --bert-finetune trains; "
            "leave one of them out"
        )
    if cfg.bert_cache_limit is not None and (cfg.bert_cache is None or not 0 < cfg.bert_cache_limit < inf):
        errors.append(
            f"--bert-cache-limit must be a number of GB over 0, for --bert-cache, got {cfg.bert_cache_limit}"
            f"{' without --bert-cache' if cfg.bert_cache is None else ''}; leave it out for no limit"
        )
    if cfg.bert_documents is not None and not model.cfg.bert_context:
        errors.append(
            f"--bert-documents {cfg.bert_documents} is for --bert-context, which is 0; set that, or leave it out"
        )
    return errors
