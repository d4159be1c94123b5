"""Files, checkpoints and flags that a warm start refuses, and what it says of them."""

import os
from argparse import Namespace

import pytest
import torch
from warm_start_helpers import LARGER

from bert_fused_plugin.errors import BertFusedError


class Harmful:
    def __reduce__(self):
        return os.system, ("touch harmed",)


def bad_checkpoints(tmp_path, stock, save):
    """Yield (path, what is said of it)."""
    state = torch.load(save(stock()), weights_only=False)

    def write(name, content):
        torch.save(content, tmp_path / name)
        return str(tmp_path / name)

    yield str(tmp_path / "gone.pt"), "gone.pt cannot be read: No such file or directory; give the checkpoint of a"
    yield write("bad.pt", {**state, "extra": Harmful()}), "bad.pt is refused: it holds posix.system, which no fairseq"
    yield write("list.pt", [1, 2]), "list.pt holds no model of fairseq; give the checkpoint of a fairseq transformer"
    lstm = {"encoder.lstm.weight_ih_l0": torch.ones(3), "decoder.layers.0.weight_ih": torch.ones(3)}
    cfg = {"model": Namespace(arch="lstm"), "task": None}
    yield (
        write("lstm.pt", {"model": lstm, "cfg": cfg}),
        "lstm.pt is no transformer with encoder and decoder (--arch lstm); give",
    )
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


@pytest.mark.parametrize(
    ("baseline", "options", "messages"),
    [
        (
            {"encoder_embed_dim": 6, "decoder_embed_dim": 6},
            {},
            [
                "was trained with --encoder-embed-dim 6, and this model is built with --encoder-embed-dim 8; give ",
                "was trained with --decoder-embed-dim 6, and this model is built with --decoder-embed-dim 8; give ",
            ],
        ),
        (
            {"encoder_attention_heads": 4},
            {},
            [
                "was trained with --encoder-attention-heads 4, and this model is built with "
                "--encoder-attention-heads 2; give --encoder-attention-heads 4"
            ],
        ),
        (
            {"decoder_normalize_before": True},
            {},
            ["was trained with --decoder-normalize-before, and this model is built without --decoder-normalize-before"],
        ),
        (
            {},
            {"decoder_normalize_before": True},
            ["; leave --decoder-normalize-before out"],
        ),
        (
            {"activation_fn": "gelu"},
            {},
            ["was trained with --activation-fn gelu, and this model is built with --activation-fn relu; "],
        ),
        ({"no_scale_embedding": True}, {}, ["was trained with --no-scale-embedding, and "]),
        ({"decoder_learned_pos": True}, {}, ["was trained with --decoder-learned-pos, and "]),
    ],
)
def test_checkpoints_of_other_models_are_refused(start, stock, save, baseline, options, messages):
    with pytest.raises(BertFusedError) as caught:
        start(save(stock(**baseline)), **options)
    assert len(caught.value.errors) == len(messages)
    for error, message in zip(caught.value.errors, messages):
        assert error.startswith("--bert-warm-start ")
        assert message in error


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
