"""Bad values of the model's flags are refused, all of them together."""

from argparse import Namespace

import pytest
from helpers import SIZES, make_gru, make_model

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import bert_fused
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.models.bert_fused.config_checks import config_errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bert_gates": "1,0,1"}, r"--bert-gates must be a 0 or 1 for each of the 2 layers.*got '1,0,1'"),
        ({"bert_gates": "1,x"}, r"--bert-gates must be a 0 or 1"),
        ({"bert_gates": "0,0"}, r"lets none of the 2 encoder and 2 decoder layers attend to BERT"),
        ({"bert_branch_weights": "1"}, r"--bert-branch-weights must be two numbers .* got '1'"),
        ({"bert_branch_weights": "1,nan"}, r"--bert-branch-weights must be two numbers"),
        ({"bert_branch_weights": "1,2,3"}, r"--bert-branch-weights must be two numbers"),
        ({"bert_layer": "3"}, r"--bert-layer must be in \[0, 2\], or in \[-3, -1\] from the end.*got '3'"),
        ({"bert_layer": "-4"}, r"--bert-layer must be in \[0, 2\].*got '-4'"),
        ({"decoder_layers": 0}, r"--decoder-layers must be at least 1, got 0; choose 1 or more"),
        ({"encoder_attention_heads": 0}, r"--encoder-attention-heads must divide --encoder-embed-dim, got 0"),
        ({"encoder_embed_dim": 0}, r"--encoder-embed-dim must be at least 1, got 0"),
        ({"decoder_ffn_embed_dim": 0}, r"--decoder-ffn-embed-dim must be at least 1, got 0"),
        ({"max_source_positions": 0}, r"--max-source-positions must be at least 1, got 0"),
        ({"dropout": 1.5}, r"--dropout must be in \[0, 1\), got 1.5; 0 turns it off"),
        ({"attention_dropout": -0.1}, r"--attention-dropout must be in \[0, 1\), got -0.1"),
        (
            {"encoder_layers_to_keep": "0,2"},
            r"--encoder-layers-to-keep must be different numbers from 0 to 1, .*got 0,2",
        ),
        ({"decoder_layers_to_keep": "0,x"}, r"--decoder-layers-to-keep must be different numbers .*got 0,x"),
        (
            {"decoder_layers_to_keep": "1", "encoder_layers_to_keep": "0", "bert_gates": "0"},
            r"--bert-gates must be a 0 or 1 for each of the layers of the training",
        ),
        *(
            ({name: True, "adaptive_softmax_cutoff": [5]}, rf"--{name.replace('_', '-')} is not supported by ")
            for name in ("adaptive_input", "tie_adaptive_weights", "tie_adaptive_proj")
        ),
        ({"decoder_output_dim": "6.5"}, r"--decoder-output-dim must be a whole number, got '6.5'; correct it"),
        ({"decoder_output_dim": "0"}, r"--decoder-output-dim must be at least 1, got 0"),
        *(
            ({"decoder_output_dim": 6, share: True}, r"needs --decoder-output-dim equal to .*, got 6 and 8; leave")
            for share in ("share_all_embeddings", "share_decoder_input_output_embed")
        ),
        ({"bert_drop_net": float("nan")}, r"--bert-drop-net must be in \[0, 1\]"),
    ],
)
def test_bad_values_are_refused(build, options, message):
    with pytest.raises(BertFusedError, match=message):
        build(**options)


def test_bad_values_are_refused_together(dictionary, bert_dir):
    with pytest.raises(BertFusedError) as caught:
        make_model(dictionary, bert_model=bert_dir, bert_gates="1", bert_branch_weights="a,b", bert_layer="9")
    assert [flag for flag in ("gates", "branch-weights", "layer") if f"--bert-{flag} must be" in str(caught.value)] == [
        "gates",
        "branch-weights",
        "layer",
    ]


def test_a_flag_that_only_fairseq_main_has_is_refused(dictionary, bert_dir):
    args = Namespace(**SIZES, bert_model=bert_dir)
    bert_fused(args)
    cfg = BertFusedConfig.from_namespace(args)
    assert config_errors(cfg, dictionary, dictionary) == []
    cfg.merge_src_tgt_embed = True
    assert config_errors(cfg, dictionary, dictionary) == [
        "--merge-src-tgt-embed is not supported by this architecture, got True; leave it out"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bert_model": 3}, "--bert-model must be a text, got 3"),
        ({"bert_drop_net": "x"}, "--bert-drop-net must be a number, got 'x'"),
        ({"bert_context": 1.5}, "--bert-context must be a whole number, got 1.5"),
        ({"bert_context": None}, "--bert-context must be a whole number, got None"),
        ({"bert_finetune": "yes"}, "--bert-finetune must be True or False, got 'yes'"),
        ({"bert_max_tokens": True}, "--bert-max-tokens must be a whole number, got True"),
    ],
)
def test_values_of_another_kind_are_refused(build, dictionary, bert_dir, options, message):
    """--model-overrides takes any."""
    with pytest.raises(BertFusedError, match=rf"^{message}; correct it$"):
        build(**options)
    with pytest.raises(BertFusedError, match=rf"^{message}; correct it$"):
        make_gru(dictionary, **{"bert_model": bert_dir, **options})


def test_a_layer_may_be_a_number(build):
    assert build(bert_layer=1).encoder.bert.layers == (1,)
