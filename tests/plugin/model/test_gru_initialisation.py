"""The first values of the parameters of a recurrent model."""

import shutil
from argparse import Namespace
from functools import partial

import pytest
import torch
from helpers import GRU_SIZES, SIZES, assert_close, make_gru, task_of
from transformers import BertModel

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel, bert_fused
from bert_fused_plugin.models.gru_bahdanau import GruModel, gru_bahdanau


def test_the_papers_initialisation(dictionary):
    big = {"encoder_hidden_size": 60, "decoder_hidden_size": 70, "encoder_embed_dim": 80, "decoder_embed_dim": 90}
    model = make_gru(dictionary, rnn_init="paper", **big)
    attention, cell = model.decoder.attention, model.decoder.cell
    for block in (*cell.gate_proj.weight.chunk(2), cell.candidate_proj.weight):
        assert_close(block @ block.T, torch.eye(70), atol=1e-5)
    for block in model.encoder.layers[0].weight_hh_l0_reverse.chunk(3):
        assert_close(block @ block.T, torch.eye(60), atol=1e-5)
    for matrix, std in ((attention.query_proj.weight, 0.001), (attention.key_proj.weight, 0.001)):
        assert abs(matrix.std().item() / std - 1) < 0.1
    for matrix in (cell.input_proj.weight, model.decoder.embed_tokens.weight, model.decoder.output_projection.weight):
        assert abs(matrix.std().item() / 0.01 - 1) < 0.15
    assert not attention.v.any()
    assert not cell.input_proj.bias.any()
    assert not model.encoder.layers[0].bias_ih_l0.any()
    modern = make_gru(dictionary, **big)
    assert abs(modern.decoder.attention.v.norm().item() - 1) < 0.3
    for matrix in (modern.decoder.embed_tokens.weight, modern.decoder.output_projection.weight):
        rows = matrix.norm(dim=1)
        assert abs(rows[rows > 0].mean().item() - 1) < 0.1
    assert not modern.encoder.embed_tokens.weight[dictionary.pad()].any()


def test_a_bert_that_trains_keeps_its_row_of_padding(dictionary, bert_dir, tmp_path):
    shutil.copytree(bert_dir, tmp_path / "bert")
    bert = BertModel.from_pretrained(bert_dir)
    bert.get_input_embeddings().weight.data[0] = 1.0
    bert.save_pretrained(tmp_path / "bert")
    model = make_gru(dictionary, bert_model=str(tmp_path / "bert"), bert_finetune=True)
    assert model.encoder.source.bert.model.get_input_embeddings().weight[0].all()


def test_tied_embeddings(dictionary):
    tied = make_gru(dictionary, decoder_out_embed_dim=7, share_decoder_input_output_embed=True)
    assert tied.decoder.output_projection.weight is tied.decoder.embed_tokens.weight
    shared = make_gru(dictionary, decoder_out_embed_dim=7, encoder_embed_dim=7, share_all_embeddings=True)
    assert shared.encoder.embed_tokens.weight is shared.decoder.output_projection.weight


@pytest.mark.parametrize("header", ["", "2 8\n"])
def test_both_architectures_read_vectors_with_and_without_a_first_line_that_counts_them(
    dictionary, build, tmp_path, monkeypatch, header
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "vectors").write_text(f"{header}dog {'0.5 ' * 8}\nThür {'1 ' * 8}\n", encoding="utf-8")
    for model in (
        build(encoder_embed_path="~/vectors"),
        build(share_all_embeddings=True, encoder_embed_path="~/vectors"),
        build(decoder_embed_path="~/vectors"),
        make_gru(dictionary, encoder_embed_path="~/vectors", encoder_embed_dim=8),
    ):
        sides = {model.encoder.embed_tokens, model.decoder.embed_tokens}
        assert any(side.weight[dictionary.index("dog")].tolist() == [0.5] * 8 for side in sides)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("model", "preset", "sizes"), [(BertFusedModel, bert_fused, SIZES), (GruModel, gru_bahdanau, GRU_SIZES)]
)
def test_only_a_training_that_begins_reads_vectors(dictionary, bert_dir, tmp_path, model, preset, sizes, shared):
    path, last = tmp_path / "vectors", tmp_path / "checkpoint_last.pt"
    widths = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"), 8)
    given = {"encoder_embed_path": str(path), "decoder_embed_path": str(path), "share_all_embeddings": shared}
    directory = {"save_dir": str(tmp_path), "restore_file": last.name}

    def flags():
        args = Namespace(**{**sizes, **widths, **given, **directory, "bert_model": bert_dir})
        preset(args)
        return args

    path.write_text(f"dog {'0.5 ' * 8}\n", encoding="utf-8")
    args, task = flags(), task_of(dictionary)
    trained = model.build_model(args, task)
    for side in (trained.encoder, trained.decoder):
        assert side.embed_tokens.weight[dictionary.index("dog")].tolist() == [0.5] * 8
    path.unlink()
    model.build_model(args, task).load_state_dict(trained.state_dict())
    with pytest.raises(BertFusedError, match=r"^--encoder-embed-path"):
        model.build_model(flags(), task)
    path.touch()
    given["finetune_from_model"] = "x.pt"
    with pytest.raises(BertFusedError, match=r"^--encoder-embed-path has no effect with --finetune-from-model"):
        model.build_model(flags(), task)
    last.touch()
    args = flags()
    model.build_model(args, task)
    assert args.encoder_embed_path is args.decoder_embed_path is None


@pytest.mark.parametrize(
    ("content", "said"), [("dog x y\n", "cannot be used"), ("dog 12 3\n", ".*size of the tensor .* numbers")]
)
def test_files_without_vectors_for_the_model_are_refused(dictionary, build, tmp_path, content, said):
    (tmp_path / "vectors").write_text(content, encoding="utf-8")
    for make in (build, partial(make_gru, dictionary)):
        with pytest.raises(BertFusedError, match=f"^--encoder-embed-path .*vectors {said}"):
            make(encoder_embed_path=str(tmp_path / "vectors"))
