"""The choice of the layers of BERT that a model reads, and a warning of an encoder of sentences."""

import shutil
from argparse import Namespace
from functools import partial

import pytest
import torch
import transformers
from helpers import GRU_SIZES, SIZES, assert_close, translation_task
from transformers import BertConfig, BertModel
from transformers.utils import cached_file

from bert_fused_lab.recipe.encoder import layer_and_width
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.layer_choice import (
    RandomLayer,
    ScalarMix,
    advised_layer,
    is_sentence_encoder,
    last_layer_warning,
    layer_indices,
)
from bert_fused_plugin.errors import BertFusedError

WARNING = "was trained to represent whole sentences"


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("-1", (6,)), ("6", (6,)), ("0", (0,)), ("-7", (0,)), ("2", (2,)),
        ("mix", (0, 1, 2, 3, 4, 5, 6)), ("random:1", (6,)), ("random:3", (4, 5, 6)), ("random:6", (1, 2, 3, 4, 5, 6)),
    ],
)  # fmt: skip
def test_which_layers_a_flag_means(layers, expected):
    assert layer_indices(layers, 6) == expected


@pytest.mark.parametrize("layers", ["7", "-8", "x", "", "1.5", "random:0", "random:7", "random:", "random:-1", "mixed"])
def test_layers_that_do_not_exist(layers):
    with pytest.raises(BertFusedError, match=r"must be in \[0, 6\], .* or random:K with K in \[1, 6\], got "):
        layer_indices(layers, 6)


def test_the_advised_layer_is_at_two_thirds_of_the_depth():
    assert [advised_layer(depth) for depth in (1, 2, 6, 12, 24)] == [1, 1, 4, 8, 16]


@pytest.fixture
def of_sentences(bert_dir, tmp_path):
    """A directory with a BERT of two layers that sentence-transformers has written."""
    path = tmp_path / "of sentences"
    shutil.copytree(bert_dir, path)
    (path / "modules.json").write_text("[]")
    return str(path)


def test_a_model_of_the_hub_says_so_by_its_name_or_by_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.utils, "cached_file", partial(cached_file, cache_dir=tmp_path))
    assert is_sentence_encoder("sentence-transformers/all-MiniLM-L6-v2")
    assert not is_sentence_encoder("someone/encoder")
    repository = tmp_path / "models--someone--encoder"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    (repository / "snapshots" / "abc" / "modules.json").touch()
    assert is_sentence_encoder("someone/encoder")


def warning_of(bert):
    return last_layer_warning(bert.name, bert.layers, bert.depth, value="NAME")


@pytest.mark.parametrize("layer", ["-1", "2", "random:1", "1", "0", "mix", "random:2"])
def test_only_the_last_layer_alone_is_warned_of(of_sentences, layer):
    warning = warning_of(FrozenBert.from_pretrained(of_sentences, layer))
    if layer in ("1", "0", "mix", "random:2"):
        assert warning is None
    else:
        assert warning.startswith(f"--bert-model NAME {WARNING}")
        assert "give --bert-layer 1 (of 2), and see docs/tuning.md" in warning


def test_one_layer_alone_and_other_encoders_are_not_warned_of(bert_dir, of_sentences):
    assert warning_of(FrozenBert.from_pretrained(bert_dir)) is None
    BertModel(BertConfig.from_pretrained(bert_dir, num_hidden_layers=1)).save_pretrained(of_sentences)
    assert warning_of(FrozenBert.from_pretrained(of_sentences)) is None


@pytest.mark.parametrize(("arch", "sizes"), [("bert_fused", SIZES), ("gru_dot", GRU_SIZES)])
def test_the_task_warns_where_a_training_begins(dictionary, of_sentences, tmp_path, caplog, arch, sizes):
    task = translation_task(dictionary)

    def warnings(from_checkpoint=False, **flags):
        caplog.clear()
        launch = {"save_dir": str(tmp_path), "restore_file": "checkpoint_last.pt", "checkpoint_suffix": ""}
        task.build_model(
            Namespace(**sizes, arch=arch, **{**launch, "bert_model": of_sentences, **flags}), from_checkpoint
        )
        return [record.getMessage() for record in caplog.records if WARNING in record.getMessage()]

    assert len(warnings()) == 1
    assert warnings(bert_layer="1") == []
    assert warnings(bert_finetune=True) == []  # it can make its last layer fit
    assert warnings(from_checkpoint=True) == []  # a finished model is translated with
    (tmp_path / "checkpoint_last.pt").touch()
    assert warnings() == []  # a training resumes, whose layer cannot change


@pytest.mark.parametrize("directory", ["bert_dir", "of_sentences"])
def test_the_recipe_takes_the_layer_that_the_warning_names(directory, request):
    layer = 1 if directory == "of_sentences" else None
    assert layer_and_width(request.getfixturevalue(directory)) == (layer, 12)


# --- mixtures of layers


B, L, N, D = 2, 5, 3, 4


def test_scalar_mix_is_elmos_equation():
    mix, states = ScalarMix(N), torch.randn(B, L, N, D)
    assert_close(mix(states), states.mean(dim=2))  # as it begins
    with torch.no_grad():
        mix.w.copy_(torch.tensor([0.3, -1.0, 2.0]))
        mix.gamma.fill_(1.7)
    exps = [torch.exp(w) for w in mix.w]
    expected = 1.7 * sum(e / sum(exps) * states[:, :, j] for j, e in enumerate(exps))
    assert_close(mix(states), expected)


def test_a_random_layer_is_one_of_them_in_training_and_their_mean_in_evaluation():
    mix, states = RandomLayer().train(), torch.randn(B, L, N, D)
    seen = []
    for _ in range(60):
        out = mix(states)
        seen.append([torch.equal(out, states[:, :, j]) for j in range(N)])
    assert all(sum(hits) == 1 for hits in seen)
    assert all(any(hits[j] for hits in seen) for j in range(N))
    assert_close(mix.eval()(states), states.mean(dim=2))
    torch.manual_seed(3)
    first = mix.train()(states)
    torch.manual_seed(3)
    assert torch.equal(mix(states), first)
