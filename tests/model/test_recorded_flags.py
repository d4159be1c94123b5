"""No flag is forgotten: each has its specification, and each that checkpoints record has a case that shows it."""

import argparse

import pytest
from settings_cases import FUSED, FUSED_NOTED, GRU, GRU_NOTED, GRU_WITH_BERT

from bert_fused_plugin.errors import flag_name
from bert_fused_plugin.flags import Record
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS
from bert_fused_plugin.modules.fusion import FUSION_KINDS
from bert_fused_plugin.modules.recurrent_attention import RECURRENT_ATTENTIONS

TABLES = [
    (BertFusedModel, "bert_fusion", FUSION_KINDS),
    (BertFusedModel, "attention_map", ATTENTION_MAPS),
    (BertFusedModel, "self_attention_map", ATTENTION_MAPS),
    (GruModel, "attention_map", ATTENTION_MAPS),
    (GruModel, "attention", RECURRENT_ATTENTIONS),
]
OF_FINETUNING = {"--bert-finetune-layers", "--bert-lr-factor"}  # with a test of their own


@pytest.mark.parametrize(
    ("model", "cases", "tested"),
    [
        (BertFusedModel, FUSED + FUSED_NOTED, OF_FINETUNING),
        (GruModel, [*GRU, GRU_WITH_BERT, *GRU_NOTED], OF_FINETUNING | {"--bert-max-tokens", "--bert-drop-net"}),
    ],
)
def test_each_flag_is_specified_and_each_record_tested(model, cases, tested):
    parser = argparse.ArgumentParser()
    model.add_args(parser)
    specified = model.config_class.flags()
    assert {action.dest for action in parser._actions} - {"help"} <= specified.keys()
    recorded = {flag_name(name) for name, flag in specified.items() if flag.record in (Record.COMPUTED, Record.NOTED)}
    assert recorded == tested | {words.split()[1] for case in cases for words in case[2:]}


@pytest.mark.parametrize(("model", "name", "table"), TABLES)
def test_a_flag_offers_the_kinds_of_its_table_and_explains_each(model, name, table):
    parser = argparse.ArgumentParser()
    model.add_args(parser)
    [action] = [action for action in parser._actions if action.dest == name]
    assert list(action.choices) == list(table)
    assert all(f"{kind}: {of_table.help}" in action.help for kind, of_table in table.items())
