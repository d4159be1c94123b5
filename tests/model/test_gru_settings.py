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


def test_a_file_of_embeddings_that_is_not_there_is_refused(dictionary):
    with pytest.raises(BertFusedError, match=r"--encoder-embed-path nowhere cannot be read .*No such file.*; give"):
        make_gru(dictionary, encoder_embed_path="nowhere")


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
