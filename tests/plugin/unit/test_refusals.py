"""A bad value of a flag is refused by a sentence with flag, rule, value and remedy, beside those of other flags."""

import re
from argparse import Namespace
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from fairseq.data import Dictionary
from helpers import GRU_SIZES, SIZES, criterion_of
from omegaconf import OmegaConf

from bert_fused_plugin.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropy,
    LabelSmoothedCrossEntropyConfig,
)
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.flags import at_least, flag
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, config_errors
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig, gru_config_errors
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig, unusable_flags

BARE = SimpleNamespace(cfg={})


def fused(src_dict=None, **options):
    sizes = {**SIZES, "max_source_positions": 9, "max_target_positions": 9, "decoder_output_dim": 8, "bert_model": "x"}
    cfg = BertFusedConfig.from_namespace(Namespace(**{**sizes, **options}))
    return config_errors(cfg, src_dict or Dictionary(), Dictionary())


def gru(src_dict=None, **options):
    cfg = GruConfig.from_namespace(Namespace(**{**GRU_SIZES, **options}))
    return gru_config_errors(cfg, src_dict or Dictionary(), Dictionary())


def task(bert_context=0, bert_finetune=False, **options):
    """Return the errors of the task's flags beside a model with these settings."""
    model = SimpleNamespace(cfg=SimpleNamespace(bert_context=bert_context, bert_finetune=bert_finetune))
    return unusable_flags(BertFusedTranslationConfig(**options), model)


def criterion(**options):
    with pytest.raises(BertFusedError) as caught:
        criterion_of(BARE, **options)
    return caught.value.errors


GATES = "leave it out to let every layer attend to BERT"
UNSUPPORTED = "is not supported by this architecture"
FUSED = [
    ({"bert_model": None}, "--bert-model is required, got None; give a local model directory"),
    ({"bert_gates": "1,0,1"}, f"--bert-gates must be a 0 or 1 for each of the 2 layers, *, got '1,0,1'; {GATES}"),
    ({"decoder_layers": 0}, "--decoder-layers must be at least 1, got 0; give a positive number"),
    ({"encoder_layers": -1}, "--encoder-layers must be at least 0, got -1; give 0 or a positive number"),
    (
        {"bert_gates": "0,0"},
        "--bert-attend both, --bert-gates 0,0 and the numbers of layers leave no layer that attends",
    ),
    ({"bert_attend": "encoder", "encoder_layers": 0}, "--bert-attend encoder, --bert-gates None and * leave no layer"),
    ({"bert_gates": "1,x"}, "--bert-gates must be a 0 or 1 for each of the 2 layers"),
    ({"bert_branch_weights": "1"}, "--bert-branch-weights must be two numbers * got '1'; give two finite"),
    ({"bert_branch_weights": "1,nan"}, "--bert-branch-weights must be two numbers"),
    ({"bert_branch_weights": "1,2,3"}, "--bert-branch-weights must be two numbers"),
    ({"bert_branch_weights": ""}, "--bert-branch-weights must be two numbers with a comma between them, got ''"),
    ({"bert_drop_net": float("nan")}, "--bert-drop-net must be in [0, 1], got nan; 1.0 was best in the paper, and 0"),
    ({"bert_drop_net": 2.0}, "--bert-drop-net must be in [0, 1], got 2.0"),
    ({"bert_max_tokens": 1}, "--bert-max-tokens must be at least 3, got 1; leave it out for BERT's own limit"),
    ({"bert_tokenizer_options": "x"}, "--bert-tokenizer-options must be NAME=VALUE, with *, got 'x'; give for"),
    ({"bert_context": -1}, "--bert-context must be at least 0, got -1; with 0 BERT reads each sentence by itself"),
    ({"bert_lr_factor": 0.5}, "--bert-lr-factor is for --bert-finetune, got 0.5; add --bert-finetune, or"),
    ({"bert_finetune_layers": 1}, "--bert-finetune-layers is for --bert-finetune, got 1; add"),
    ({"encoder_attention_heads": 0}, "--encoder-attention-heads must divide --encoder-embed-dim, got 0 and 8; change"),
    (
        {"decoder_output_dim": 6, "share_decoder_input_output_embed": True},
        "--decoder-output-dim must equal --decoder-embed-dim where the decoder shares its embeddings, got 6 and 8",
    ),
    ({"decoder_attention_heads": 3}, "--decoder-attention-heads must divide --decoder-embed-dim, got 3 and 8; change"),
    *(
        ({name: 1}, f"--{name.replace('_', '-')} {UNSUPPORTED}, got 1; leave it out")
        for name in (
            *("adaptive_input", "tie_adaptive_weights", "tie_adaptive_proj", "quant_noise_pq", "char_inputs"),
            *("adaptive_softmax_cutoff", "encoder_xformers_att_config", "encoder_layers_to_keep"),
            "merge_src_tgt_embed",  # of fairseq's main
        )
    ),
    ({"bert_fusion": "stacked", "bert_drop_net": 0.5}, "--bert-drop-net is for --bert-fusion *, got 0.5; leave it out"),
    ({"bert_fusion": "gated", "bert_branch_weights": "1,1"}, "--bert-branch-weights is for *parallel, got 1,1"),
    ({"bert_stack_order": "encoder-first"}, "--bert-stack-order is for --bert-fusion stacked, got encoder-first"),
    ({"bert_fusion": "embedding", "bert_attend": "decoder"}, "--bert-attend is for * got decoder; leave it out"),
    ({"bert_fusion": "embedding", "bert_gates": "1,1"}, "--bert-gates is for * got 1,1; leave it out"),
    ({"bert_fusion": "embedding", "encoder_embed_path": "x"}, "--encoder-embed-path is for * got x; leave it out"),
    ({"bert_fusion": "gated", "bert_drop_net": 1.0}, "--bert-drop-net must be below 1 with --bert-fusion gated, got"),
    ({"bert_fusion": "gated", "bert_identity_start": True}, "--bert-identity-start is for * parallel and stacked"),
    ({"bert_identity_start": True, "bert_branch_weights": "2,1"}, "--bert-identity-start needs weight 1 *, got * 2,1"),
    (
        {"bert_fusion": "stacked", "bert_identity_start": True, "encoder_normalize_before": True},
        "--bert-identity-start with --bert-fusion stacked needs --decoder-normalize-before: after the sub-layer",
    ),
    (
        {"share_all_embeddings": True, "decoder_embed_path": "y"},
        "--decoder-embed-path is not for --share-all-embeddings *, got y; give the file with --encoder-embed",
    ),
    ({"share_all_embeddings": True, "encoder_embed_dim": 16}, "--share-all-embeddings needs * equal *, got 16 and 8; "),
]
GRU = [
    ({"decoder_hidden_size": 0}, "--decoder-hidden-size must be at least 1, got 0; give a positive number"),
    ({"dropout": 1.0}, "--dropout must be in [0, 1), got 1.0; 0 turns it off"),
    ({"dropout": float("nan")}, "--dropout must be in [0, 1), got nan"),
    ({"attention": "none", "attention_map": "sparsemax"}, "--attention-map is for --attention *, got sparsemax"),
    ({"share_decoder_input_output_embed": True}, "* needs --decoder-out-embed-dim equal to --decoder-embed-dim"),
    ({"bert_drop_net": 0.3}, "--bert-drop-net is for --bert-model, got 0.3; add --bert-model, or leave this flag out"),
    ({"bert_finetune_layers": 1}, "--bert-finetune-layers is for --bert-model, got 1; add"),
    ({"bert_model": "x", "bert_max_tokens": 1}, "--bert-max-tokens must be at least 3, got 1"),
    ({"bert_model": "x", "bert_lr_factor": 5.0}, "--bert-lr-factor is for --bert-finetune, got 5.0"),
    ({"bert_model": "x", "bert_branch_weights": "1"}, "--bert-branch-weights must be two numbers"),
    (
        {"share_all_embeddings": True, "decoder_out_embed_dim": 7, "encoder_embed_dim": 7, "decoder_embed_path": "y"},
        "--decoder-embed-path is not for --share-all-embeddings *, got y; give the file with --encoder-embed",
    ),
]
TASK = [
    *(
        (
            {name: "", "bert_context": 1},
            f"--{name.replace('_', '-')} must not be empty, as it is if a shell *, got ''; ",
        )
        for name in ("bert_text", "bert_documents", "bert_cache")
    ),
    ({"bert_cache_dtype": "fp32"}, "--bert-cache-dtype is for --bert-cache, got fp32; add --bert-cache, or leave this"),
    (
        {"bert_documents": "x"},
        "--bert-documents x needs --bert-context, which is 0; set that, or leave it out",
    ),
    (
        {"bert_cache": "x", "bert_finetune": True},
        "--bert-cache x needs a frozen BERT; leave it or --bert-finetune out",
    ),
]
SIMCUT, R_DROP = {"consistency": "simcut"}, {"consistency": "r-drop"}
CRITERION = [
    ({"label_smoothing": -0.1}, "--label-smoothing must be in [0, 1), got -0.1; 0.1 is usual"),
    ({"label_smoothing": 1.0}, "--label-smoothing must be in [0, 1), got 1.0; 0.1 is usual"),
    ({**SIMCUT, "consistency_alpha": -1.0}, "--consistency-alpha must be at least 0, got -1.0; choose 0 or more"),
    ({**SIMCUT, "cutoff": 1.0}, "--cutoff must be in [0, 1), got 1.0; 0.05 is usual"),
    ({"consistency_alpha": 2.0}, "--consistency-alpha is for --consistency simcut and r-drop, got 2.0; leave it out"),
    ({**R_DROP, "cutoff": 0.1}, "--cutoff is for --consistency simcut, got 0.1; leave it out"),
]
TABLES = [(fused, FUSED), (gru, GRU), (task, TASK), (criterion, CRITERION)]


def fits(pattern, sentence):
    """Return whether *sentence* begins as *pattern* says, in which a star stands for any text."""
    return re.match(re.escape(pattern).replace(r"\*", ".*"), sentence) is not None


@pytest.mark.parametrize(
    ("errors_of", "options", "sentence"), [(function, *row) for function, rows in TABLES for row in rows]
)
def test_a_bad_value_is_refused_by_a_sentence(errors_of, options, sentence):
    [error] = errors_of(**options)
    assert fits(sentence, error), error


def test_dictionaries_that_differ_cannot_share_embeddings():
    other = Dictionary()
    other.add_symbol("other")
    for errors in (
        fused(other, share_all_embeddings=True),
        gru(other, share_all_embeddings=True, encoder_embed_dim=7, decoder_out_embed_dim=7),
    ):
        [error] = errors
        assert fits("--share-all-embeddings *needs one dictionary for both languages, got 5 source and 4 target", error)


@pytest.mark.parametrize("given", [lambda cfg: cfg, OmegaConf.structured])
def test_the_flags_that_a_subclass_adds_to_the_criterion_are_checked(given):
    @dataclass
    class OwnConfig(LabelSmoothedCrossEntropyConfig):
        own_scale: int = flag("A factor.", 1, rule=at_least(1))

    with pytest.raises(BertFusedError, match=r"^--own-scale must be at least 1, got 0"):
        LabelSmoothedCrossEntropy.build_criterion(given(OwnConfig(own_scale=0)), BARE)


def test_what_has_no_effect_on_a_side_without_layers_is_not_asked_for():
    without = {"encoder_layers": 0, "encoder_attention_heads": 3}
    assert fused(**without) == []
    assert fused(**without, bert_fusion="stacked", bert_identity_start=True, decoder_normalize_before=True) == []
    assert gru(attention="none", bert_model="x", attention_map="sparsemax") == []  # that of the attention to BERT


@pytest.mark.parametrize("errors_of", [fused, gru])
def test_a_map_needs_its_package(errors_of, monkeypatch):
    monkeypatch.setattr("bert_fused_plugin.bert.flags.find_spec", lambda name: None)
    assert errors_of(attention_map="softmax") == []
    for name in set(ATTENTION_MAPS) - {"softmax"}:
        assert errors_of(attention_map=name) == [
            f"--attention-map needs the package entmax, which is not installed, got {name!r}; run: pip install entmax"
        ]
