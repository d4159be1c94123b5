"""Files, checkpoints and flags that a warm start refuses, and what it says of them."""

import os
from argparse import Namespace

import pytest
import torch
from helpers import Call
from settings_cases import off, switch, value
from warm_start_helpers import LARGER

from bert_fused_plugin.errors import BertFusedError


def bad_checkpoints(tmp_path, stock, save):
    """Yield (path, what is said of it)."""
    state = torch.load(save(stock()), weights_only=False)

    def write(name, content):
        torch.save(content, tmp_path / name)
        return str(tmp_path / name)

    yield str(tmp_path / "gone.pt"), "gone.pt cannot be read: No such file or directory; give the checkpoint of a"
    yield write("bad.pt", {**state, "x": Call(os.system, "touch harmed")}), "bad.pt is refused: it holds posix.system"
    yield write("list.pt", [1, 2]), "list.pt holds no model of fairseq; give the checkpoint of a fairseq transformer"
    lstm = {"encoder.lstm.weight_ih_l0": torch.ones(3), "decoder.layers.0.weight_ih": torch.ones(3)}
    cfg = {"model": Namespace(arch="lstm"), "task": None}
    yield (
        write("lstm.pt", {"model": lstm, "cfg": cfg}),
        "lstm.pt is no transformer with encoder and decoder (--arch lstm); give",
    )
    old = {**state, "model": {**state["model"], "bert_encoder.embeddings.word_embeddings.weight": torch.ones(2)}}
    yield write("old.pt", old), "old.pt is of bert-nmt; convert it with bert-fused-import first"
    no_encoder = {k: v for k, v in state["model"].items() if "encoder_attn" not in k}
    yield write("lm.pt", {"model": no_encoder}), "lm.pt is no transformer with encoder and decoder (--arch unknown)"


def test_files_that_cannot_be_used_are_refused(start, stock, save, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, message in bad_checkpoints(tmp_path, stock, save):
        with pytest.raises(BertFusedError) as caught:
            start(path)
        [error] = caught.value.errors
        assert error.startswith("--bert-warm-start")
        assert message in error
    assert not (tmp_path / "harmed").exists()


def test_word_vectors_that_the_checkpoint_would_replace_are_refused(start, stock, save):
    with pytest.raises(BertFusedError, match="brings embeddings; leave out --encoder-embed-path"):
        start(save(stock()), encoder_embed_path="vectors.txt")


NARROW = {"encoder_embed_dim": 6, "decoder_embed_dim": 6}


@pytest.mark.parametrize(
    "case",
    [
        (NARROW, {}, "with --encoder-embed-dim 6", "with --encoder-embed-dim 8"),
        (NARROW, {}, "with --decoder-embed-dim 6", "with --decoder-embed-dim 8"),
        value("encoder_attention_heads", 4, 2),
        value("activation_fn", "gelu", "relu"),
        switch("decoder_normalize_before"),
        off(switch("decoder_normalize_before")),
        switch("no_scale_embedding"),
        switch("decoder_learned_pos"),
    ],
    ids=lambda case: case[2],
)
def test_checkpoints_of_other_models_are_refused(start, stock, save, case):
    baseline, options, then, now = case
    with pytest.raises(BertFusedError) as caught:
        start(save(stock(**baseline)), **options)
    assert len(caught.value.errors) == len(baseline | options)
    said = f"was trained {then}, and this model is built {now}; "
    [error] = [error for error in caught.value.errors if said in error]
    assert error.startswith("--bert-warm-start ")
    remedy = f"leave {then.split()[1]} out" if then.startswith("without") else f"give {then[5:]}"
    assert f"; {remedy}" in error


def test_the_flags_of_layers_that_the_model_does_not_have_do_not_matter(start, stock, save):
    baseline = stock(encoder_normalize_before=True, encoder_attention_heads=4)
    start(save(baseline), bert_fusion="embedding", encoder_layers=0)
    start(save(stock(encoder_learned_pos=True)), bert_fusion="embedding")  # positions of what?


def test_all_bad_settings_are_reported_together(start, stock, save):
    with pytest.raises(BertFusedError) as caught:
        start(save(stock(encoder_attention_heads=4), beside=False), LARGER, bert_drop_net=3.0, bert_layer="9")
    flags = [error.split()[0] for error in caught.value.errors]
    assert flags == ["--bert-drop-net", *["--bert-warm-start"] * 3, "--bert-layer"]
    with pytest.raises(BertFusedError) as caught:
        start("gone.pt", bert_drop_net=3.0)
    assert [error.split()[0] for error in caught.value.errors] == ["--bert-drop-net", "--bert-warm-start"]
