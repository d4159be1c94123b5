"""The flags of the task ``bert_fused_translation``."""

from dataclasses import dataclass
from typing import Any, List, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig

from bert_fused_plugin.data.cached_states import NUMBER_FORMATS
from bert_fused_plugin.errors import flag_name
from bert_fused_plugin.flags import Rule, Specified, flag, flag_errors, only_with

_DIRECTORY = Rule(
    lambda value: value != "",
    "must not be empty, as it is if a shell variable is not set",
    "give a directory, or leave the flag out",
)


@dataclass
class BertFusedTranslationConfig(TranslationConfig, Specified):
    """All flags of fairseq's translation task, and those for BERT's text, documents and cache."""

    upsample_primary: int = flag(
        "How many times an epoch reads the first training set, if there are several. With --bert-cache, BERT's states "
        "are kept as many times.",
        1,  # fairseq's is -1, with which it cannot load several training sets
    )
    bert_text: Optional[str] = flag(
        "The directory with the raw source text for BERT in DIR/{split}.{lang}, one sentence a line. Give one "
        "directory for each data directory, joined by colons. By default the text is derived from the binarised data.",
        None,
        rule=_DIRECTORY,
        values="directory",
        unset="derived",
    )
    bert_documents: Optional[str] = flag(
        "The directory with the files DIR/{split}.docs for --bert-context. They hold the line number, counted from 0, "
        "of the first sentence of each document. With and without this flag, documents end at blank source lines.",
        None,
        rule=_DIRECTORY,
        values="directory",
    )
    bert_cache: Optional[str] = flag(
        "The directory that keeps BERT's states of each data set, which are computed once and then read by all runs "
        "with the same BERT. By default BERT runs in every step.",
        None,
        rule=_DIRECTORY,
        values="directory",
    )
    bert_cache_dtype: ChoiceEnum(NUMBER_FORMATS) = flag(  # type: ignore[valid-type]
        "The number format of the cached states.", "fp16", where=(only_with("bert_cache"),)
    )


def given_flags(cfg: BertFusedTranslationConfig, *settings: str) -> List[str]:
    """Return the flags of those *settings* of *cfg* that do not have their default."""
    return [flag_name(name) for name in settings if getattr(cfg, name) != getattr(BertFusedTranslationConfig, name)]


def unusable_flags(cfg: BertFusedTranslationConfig, model: Any) -> List[str]:
    """Return a sentence for each problem of *cfg* with a *model* that reads BERT."""
    errors = flag_errors(cfg)
    if cfg.bert_cache is not None and model.cfg.bert_finetune:
        errors.append(f"--bert-cache {cfg.bert_cache} needs a frozen BERT; leave it or --bert-finetune out")
    if cfg.bert_documents is not None and not model.cfg.bert_context:
        errors.append(
            f"--bert-documents {cfg.bert_documents} needs --bert-context, which is 0; set that, or leave it out"
        )
    return errors
