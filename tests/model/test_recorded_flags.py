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
# fairseq's flags without a rule: the parameters show their values, or another value changes nothing that was learned
UNRECORDED = set(
    """
encoder_embed_dim decoder_embed_dim encoder_ffn_embed_dim decoder_ffn_embed_dim encoder_layers decoder_layers
decoder_input_dim decoder_output_dim layernorm_embedding adaptive_softmax_cutoff adaptive_softmax_factor dropout
attention_dropout activation_dropout relu_dropout max_source_positions max_target_positions decoder_embed_path
encoder_layerdrop decoder_layerdrop adaptive_softmax_dropout checkpoint_activations offload_activations export
min_params_to_wrap quant_noise_pq_block_size base_sublayers base_shuffle
""".split()
)
OF_FINETUNING = {"--bert-finetune-layers", "--bert-lr-factor"}  # with a test of their own


@pytest.mark.parametrize(
    ("model", "cases", "tested"),
    [
        (BertFusedModel, FUSED + FUSED_NOTED, OF_FINETUNING),
        (GruModel, [*GRU, GRU_WITH_BERT, *GRU_NOTED], OF_FINETUNING | {"--bert-max-tokens", "--bert-drop-net"}),
    ],
)
def test_no_flag_is_forgotten_and_each_record_is_tested(model, cases, tested):
    parser = argparse.ArgumentParser()
    model.add_args(parser)
    specified = model.config_class.flags()
    assert {action.dest for action in parser._actions} - {"help"} <= specified.keys() | UNRECORDED
    recorded = {flag_name(name) for name, flag in specified.items() if flag.record in (Record.COMPUTED, Record.NOTED)}
    assert recorded == tested | {words.split()[1] for case in cases for words in case[2:]}


@pytest.mark.parametrize(("model", "name", "table"), TABLES)
def test_a_flag_offers_the_kinds_of_its_table_and_explains_each(model, name, table):
    parser = argparse.ArgumentParser()
    model.add_args(parser)
    [action] = [action for action in parser._actions if action.dest == name]
    assert list(action.choices) == list(table)
    assert all(f"{kind}: {of_table.help}" in action.help for kind, of_table in table.items())
