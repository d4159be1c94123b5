"""Flags of the task that cannot be used."""

from types import SimpleNamespace

import pytest

from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig, unusable_flags


def errors(finetune=False, context=0, **flags):
    model = SimpleNamespace(cfg=SimpleNamespace(bert_finetune=finetune, bert_context=context))
    return unusable_flags(BertFusedTranslationConfig(**flags), model)


def test_flags_that_fit():
    assert errors() == []
    assert errors(bert_cache="cache", bert_cache_dtype="bf16") == []
    assert errors(context=1, bert_documents="documents") == []
    assert errors(finetune=True, bert_text="text") == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bert_cache": ""}, "--bert-cache must not be empty"),
        ({"bert_text": ""}, "--bert-text must not be empty"),
        ({"bert_documents": "", "context": 1}, "--bert-documents must not be empty"),
        (
            {"bert_cache": "c", "finetune": True},
            "--bert-cache c keeps the states of a frozen BERT, but --bert-finetune",
        ),
        ({"bert_documents": "d"}, "--bert-documents d needs --bert-context, which is 0"),
    ],
)
def test_flags_that_do_not(given, said):
    [error] = errors(**given)
    assert error.startswith(said)


def test_all_problems_are_told_together():
    assert len(errors(bert_documents="d", bert_cache="", finetune=True)) == 3
