"""No flag is forgotten: each is compared when a checkpoint loads, or has a reason why it need not be."""

import argparse

import pytest
from settings_cases import FUSED, FUSED_NOTED, GRU, GRU_NOTED, GRU_WITH_BERT, REASONS

from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel


@pytest.mark.parametrize(
    ("model", "cases", "others"),
    [
        (BertFusedModel, FUSED + FUSED_NOTED, REASONS | {"bert_finetune_layers", "bert_lr_factor"}),
        (
            GruModel,
            [*GRU, GRU_WITH_BERT, *GRU_NOTED],
            (REASONS - {"dropout"}) | {"bert_finetune_layers", "bert_lr_factor", "bert_max_tokens", "bert_drop_net"},
        ),
    ],
)
def test_each_flag_is_recorded_or_has_a_reason_not_to_be(model, cases, others):
    parser = argparse.ArgumentParser()
    model.add_args(parser)
    tested = {words.split()[1][2:].replace("-", "_") for case in cases for words in case[2:]}
    flags = {action.dest for action in parser._actions} - {"help"}
    assert not flags - tested - others, "record a new flag in settings.py, or say here why a checkpoint needs no record"
