"""Refuses tasks of fairseq that train no model of one encoder and one decoder, and flags of the others."""

from typing import Any, List, Mapping

from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.multilingual_translation import MultilingualTranslationTask

from bert_fused_plugin.bert.from_flags import task_settings
from bert_fused_plugin.errors import BertFusedError


def check_task(task: Any) -> None:
    """Check that a model of this package can be trained by *task*.

    Raises:
        BertFusedError: the task takes only models that have an encoder and a decoder for each pair of languages.
    """
    if isinstance(task, MultilingualTranslationTask):
        name = next(name for name, kind in TASK_REGISTRY.items() if kind is type(task))
        raise BertFusedError(
            f"--task {name} takes only fairseq's models with an encoder and a decoder for each pair of languages, and "
            "the architectures of bert_fused_plugin have one of each; for several pairs in one model give --task "
            "translation_multi_simple_epoch, or put a tag such as <2de> in front of each source line and give --task "
            "bert_fused_translation --bert-strip-tags '<2*>'"
        )


def task_flag_errors(task: Any, reasons: Mapping[str, str]) -> List[str]:
    """Return a sentence for each switch of *task* that is on and that a model cannot be trained with.

    Args:
        task: fairseq's task.
        reasons: the names of such switches, and for each the reason.
    """
    settings = task_settings(task)
    return [
        f"--{name.replace('_', '-')} is not supported by this model, got {settings[name]}: {reason}; leave it out"
        for name, reason in reasons.items()
        if settings.get(name)
    ]
