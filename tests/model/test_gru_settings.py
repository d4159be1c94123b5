"""The presets and the flags of the recurrent models, and the settings and checkpoints that they refuse."""

import argparse

import pytest
from helpers import make_gru
from language_models import save_language_model

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.gru_bahdanau import (
    gru_bahdanau,
    gru_bahdanau_iwslt_de_en,
    gru_bahdanau_tiny,
    gru_dot,
    gru_seq2seq,
)


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        (gru_bahdanau, {"rnn_init": "paper"}),
        (gru_dot, {"attention": "dot"}),
        (gru_seq2seq, {"attention": "none"}),
        (gru_bahdanau_iwslt_de_en, {"encoder_embed_dim": 256, "decoder_hidden_size": 512, "dropout": 0.3}),
        (gru_bahdanau_tiny, {"encoder_embed_dim": 128, "decoder_hidden_size": 256, "share_all_embeddings": True}),
    ],
)
def test_presets(preset, expected):
    args = argparse.Namespace(dropout=0.3)
    preset(args)
    assert {**vars(args), **expected} == vars(args)
    given = argparse.Namespace(**{name: "given" for name in expected})
    preset(given)
    assert all(getattr(given, name) == "given" for name in expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder_hidden_size": 0}, r"--decoder-hidden-size must be at least 1, got 0; give a positive number"),
        ({"dropout": 1.0}, r"--dropout must be in \[0, 1\), got 1.0"),
        ({"dropout": float("nan")}, r"--dropout must be in \[0, 1\), got nan"),
        (
            {"attention": "none", "attention_map": "entmax"},
            r"--attention-map works only with --attention additive or dot, got --attention none; leave",
        ),
        ({"attention": "location"}, r"--attention must be one of additive, dot, none, got location; choose"),
        ({"rnn_init": "xavier"}, r"--rnn-init must be one of paper, modern, got xavier; choose"),
        ({"share_decoder_input_output_embed": True}, r"needs --decoder-out-embed-dim equal to --decoder-embed-dim"),
        ({"bert_model": "nowhere/", "bert_max_tokens": 1}, r"--bert-max-tokens must be at least 3, got 1"),
        ({"bert_model": "nowhere/", "bert_context": -1}, r"--bert-context must be at least 0, got -1"),
        ({"bert_model": "nowhere/", "bert_lr_factor": 5.0}, r"--bert-lr-factor is for --bert-finetune, got 5.0"),
        ({"encoder_embed_path": "nowhere"}, r"--encoder-embed-path nowhere cannot be read .*No such file.*; give"),
        ({"bert_model": "nowhere/", "bert_branch_weights": "1"}, r"--bert-branch-weights must be two numbers"),
        ({"bert_model": "nowhere/", "bert_drop_net": 2.0}, r"--bert-drop-net must be in \[0, 1\], got 2.0"),
        (
            {"share_all_embeddings": True, "encoder_embed_path": "one", "decoder_embed_path": "other"},
            r"--decoder-embed-path is not for --share-all-embeddings .*, got other; give the file with --encoder-embed",
        ),
        ({"share_all_embeddings": True}, r"needs --encoder-embed-dim equal to --decoder-embed-dim, got 6 and 7"),
    ],
)
def test_bad_settings_are_refused(dictionary, options, message):
    with pytest.raises(BertFusedError, match=message):
        make_gru(dictionary, **options)


def test_flags_of_bert_without_bert_are_refused(dictionary):
    with pytest.raises(BertFusedError) as caught:
        make_gru(dictionary, bert_drop_net=0.3, bert_layer="2")
    assert sorted(error.split()[0] for error in caught.value.errors) == ["--bert-drop-net", "--bert-layer"]


def test_a_checkpoint_of_another_bert_is_named(dictionary, bert_dir, tmp_path):
    save_language_model("DistilBERT", tmp_path)
    tuned, frozen = (make_gru(dictionary, bert_model=bert_dir, bert_finetune=flag) for flag in (True, False))
    with pytest.raises(BertFusedError, match=r"trained with --bert-finetune, and this model is built without it; add"):
        frozen.load_state_dict(tuned.state_dict())
    with pytest.raises(BertFusedError, match=r"trained without --bert-finetune, and this model is built with it"):
        tuned.load_state_dict(frozen.state_dict())
    other = make_gru(dictionary, bert_model=str(tmp_path), bert_finetune=True)
    with pytest.raises(BertFusedError, match=r"holds another BERT than --bert-model"):
        other.load_state_dict(tuned.state_dict())
