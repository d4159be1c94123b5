"""The recipes of examples/, run again: what is done is not done twice, and what is not done is not taken for done."""

import fcntl
import shutil

import pytest


def test_what_began_from_another_transformer_is_not_taken_for_done(dry, tmp_path):
    (tmp_path / "multi30k-out" / "data-bin").mkdir(parents=True)
    assert dry.run("multi30k", "transformer", "continued", "bert_fused", UPDATES="10").returncode == 0
    assert "continued: done before" in dry.run("multi30k", "transformer", "continued", UPDATES="10").stdout
    assert dry.run("multi30k", "transformer", UPDATES="20").returncode == 0
    for step in ("continued", "bert_fused"):
        done = dry.run("multi30k", step, UPDATES="20")
        assert done.returncode == 2
        assert f"multi30k-out/{step} began from another transformer; remove it to train it again" in done.stderr
        shutil.rmtree(tmp_path / "multi30k-out" / step)
        assert dry.run("multi30k", step, UPDATES="20").returncode == 0


def test_a_training_goes_on_only_with_the_settings_that_it_began_with(dry, tmp_path):
    out = tmp_path / "multi30k-out"
    (out / "data-bin").mkdir(parents=True)
    assert dry.run("multi30k", "transformer", UPDATES="10").returncode == 0
    for spelling in (f"{out}/", "./multi30k-out"):
        assert "transformer: done before" in dry.run("multi30k", "transformer", UPDATES="10", OUT=spelling).stdout
    assert "transformer: done before" in dry.run("multi30k", "transformer").stdout  # no limit is given
    assert "continued: 7 updates" in dry.run("multi30k", "continued", MORE="7").stdout
    (out / "continued" / "finished").unlink()
    assert "continued: 7 updates" in dry.run("multi30k", "continued").stdout
    for given, changed in (
        ({"LR": "0.1"}, "(before: --lr 0.005; now: --lr 0.1)"),
        ({"UPDATES": "9"}, "(before: --max-update 10; now: --max-update 9)"),
        ({"UPDATES": "20", "TRAIN_FLAGS": "--fp16"}, "(before: ; now: --fp16)"),
    ):
        done = dry.run("multi30k", "transformer", **{"UPDATES": "10", **given})
        assert done.returncode == 2
        assert f"multi30k-out/transformer began with other settings {changed}; give another OUT=" in done.stderr
    assert len(dry.calls("fairseq-train")) == 3
    assert dry.run("multi30k", "transformer", UPDATES="20").returncode == 0
    (out / "transformer" / "begun").unlink()
    assert dry.run("multi30k", "transformer", UPDATES="20", LR="0.1").returncode == 0
    assert len(dry.calls("fairseq-train")) == 5


def test_a_half_trained_system_is_not_taken_for_a_trained_one(dry, tmp_path):
    out = tmp_path / "multi30k-out"
    (out / "data-bin").mkdir(parents=True)
    assert dry.run("multi30k", "transformer", "continued").returncode == 0
    (out / "continued" / "finished").unlink()  # as if it had been interrupted
    done = dry.run("multi30k", "compare")
    assert done.returncode == 0
    assert "multi30k: compare: continued is not trained to its end" in done.stdout
    (out / "transformer" / "finished").unlink()
    done = dry.run("multi30k", "bert_fused")
    assert done.returncode == 2
    assert "multi30k-out/transformer is not trained to its end; run the step transformer first" in done.stderr


def test_the_log_of_a_training_that_was_removed_is_removed_too(dry, tmp_path):
    log = tmp_path / "multi30k-out" / "transformer.log"
    (log.parent / "data-bin").mkdir(parents=True)
    assert dry.run("multi30k", "transformer", UPDATES="10").returncode == 0
    log.write_text("valid")
    assert dry.run("multi30k", "transformer", UPDATES="20").returncode == 0
    assert log.read_text() == "valid"
    shutil.rmtree(log.parent / "transformer")
    assert dry.run("multi30k", "transformer", UPDATES="10").returncode == 0
    assert log.read_text() == ""


def test_a_system_without_its_checkpoints_is_trained_again(dry, tmp_path):
    (tmp_path / "multi30k-out" / "data-bin").mkdir(parents=True)
    assert dry.run("multi30k", "transformer").returncode == 0
    for file in (tmp_path / "multi30k-out" / "transformer").glob("*.pt"):
        file.unlink()
    assert "done before" not in dry.run("multi30k", "transformer").stdout
    assert len(dry.calls("fairseq-train")) == 2


@pytest.fixture
def text(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        (folder / name).write_text("a\n" * 3000)
    return folder


def prepared(dry, text, preprocess="mkdir -p out[1]/data-bin.new out[1]/text"):
    (dry.path / "venv/bin/fairseq-preprocess").write_text(f"#!/bin/sh\n{preprocess}\n")
    (dry.path / "out[1]" / "text").mkdir(parents=True, exist_ok=True)
    for lang in ("en", "de"):
        (dry.path / "out[1]" / "text" / f"valid.{lang}").write_text("a\n" * 2000)
    return dry.run("tatoeba_en_de", "prepare", DATA=str(text), OUT="out[1]")


def test_other_text_is_noticed(dry, text, tmp_path):
    out = tmp_path / "out[1]"  # to the shell, this is a pattern
    assert prepared(dry, text).returncode == 0
    assert "prepare: done before" in prepared(dry, text).stdout
    assert (out / "valid.de").read_text() == "a\n" * 500
    text = shutil.copytree(text, tmp_path / "copy")
    assert "prepare: done before" in prepared(dry, text).stdout
    (text / "train.de").write_text("b\n" * 3000)
    (out / "probe" / "plain").mkdir(parents=True)
    (out / "probe" / "plain" / "checkpoint_last.pt").touch()  # of an estimate that was interrupted
    assert prepared(dry, text).returncode == 0
    (text / "train.de").write_text("b\n" * 3001)
    for folder in (out / "transformer", out / "seed-2" / "transformer"):
        folder.mkdir(parents=True)
        (folder / "checkpoint_last.pt").touch()
        done = prepared(dry, text)
        assert done.returncode == 2
        assert "out[1] holds models of other text (changed: train.de); give" in done.stderr
        shutil.rmtree(folder)
    assert prepared(dry, text, preprocess="exit 1").returncode == 2
    assert not (out / "data-bin").exists()


def test_a_later_step_takes_the_settings_that_the_text_was_prepared_with(dry, tmp_path):
    made_from = tmp_path / "own_data-out" / "data-bin" / "made-from"
    made_from.parent.mkdir(parents=True)
    made_from.write_text("--subwords sentencepiece --seed 1 --moses --bert-text\n")
    done = dry.run("own_data", "deploy", SRC="en", TGT="de", DATA=str(tmp_path), MOSES="1")
    assert done.returncode == 2
    before = "(before: --subwords sentencepiece --seed 1 --moses --bert-text;"
    assert f"own_data-out/data-bin was made with other settings {before}" in done.stderr
    done = dry.run("own_data", "deploy", SRC="en", TGT="de", DATA=str(tmp_path), MOSES="1", BERT_TEXT=str(tmp_path))
    assert "run the step prepare first" in done.stderr  # no text/numbers: the next check


def test_two_processes_do_not_train_the_same_system(dry, tmp_path):
    out = tmp_path / "multi30k-out"
    for folder in ("data-bin", "transformer"):
        (out / folder).mkdir(parents=True)
    with (out / "transformer" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = dry.run("multi30k", "transformer")
        assert done.returncode == 2
        assert "multi30k-out/transformer is being trained by another process" in done.stderr
        assert dry.run("multi30k", "gru_dot").returncode == 0
    assert dry.run("multi30k", "transformer").returncode == 0


def test_another_encoder_is_another_setting_and_another_environment_is_none(dry, tmp_path):
    (tmp_path / "multi30k-out" / "data-bin").mkdir(parents=True)
    steps = ("transformer", "bert_fused", "random_bert")
    assert dry.run("multi30k", *steps, BERT="/old/lib/site-packages/small").returncode == 0
    again = dry.run("multi30k", *steps, BERT="/new/lib/site-packages/small")
    assert [f"{step}: done before" in again.stdout for step in steps] == [True] * 3
    assert "transformer: done before" in dry.run("multi30k", "transformer", CONSISTENCY="none").stdout
    for step in steps[1:]:
        assert "began with other settings" in dry.run("multi30k", step, BERT="/old/lib/site-packages/large").stderr


def test_a_directory_of_an_encoder_is_the_same_however_it_is_named(dry, tmp_path):
    (tmp_path / "multi30k-out" / "data-bin").mkdir(parents=True)
    (tmp_path / "my bert").mkdir()
    assert dry.run("multi30k", "transformer", "bert_fused", BERT="my bert").returncode == 0
    for name in ("my bert/", "./my bert", str(tmp_path / "my bert")):
        assert "bert_fused: done before" in dry.run("multi30k", "bert_fused", BERT=name).stdout


def test_the_directory_that_a_recipe_writes_is_not_its_text(dry, text, tmp_path):
    raw = tmp_path / "tatoeba_en_de-out" / "raw"
    raw.parent.mkdir()
    text.rename(raw)
    done = dry.run("tatoeba_en_de", "prepare", DATA=str(raw))
    assert done.returncode == 2
    assert f"DATA={raw} is written by the recipe itself; give another directory OUT=dir" in done.stderr
    assert (raw / "train.en").stat().st_size == 6000
