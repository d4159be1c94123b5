"""The recipes of examples/, run again: what is done is not done twice, and what is not done is not taken for done."""

import fcntl
import shutil

import pytest


def test_what_began_from_another_transformer_is_not_taken_for_done(dry, out):
    dry.run("multi30k", "transformer", "continued", "bert_fused", UPDATES="10")
    assert "continued: done before" in dry.run("multi30k", "transformer", "continued", UPDATES="10")
    dry.run("multi30k", "transformer", UPDATES="20")
    for step in ("continued", "bert_fused"):
        said = dry.refused("multi30k", step, UPDATES="20")
        assert f"multi30k-out/{step} began from another transformer; remove it to train it again" in said
        shutil.rmtree(out / step)
        dry.run("multi30k", step, UPDATES="20")


def test_a_training_goes_on_only_with_the_settings_that_it_began_with(dry, out):
    dry.run("multi30k", "transformer", UPDATES="10")
    for spelling in (f"{out}/", "./multi30k-out"):
        assert "transformer: done before" in dry.run("multi30k", "transformer", UPDATES="10", OUT=spelling)
    assert "transformer: done before" in dry.run("multi30k", "transformer")  # no limit is given
    assert "continued: 7 updates" in dry.run("multi30k", "continued", MORE="7")
    (out / "continued" / "finished").unlink()
    assert "continued: 7 updates" in dry.run("multi30k", "continued")
    for given, changed in (
        ({"LR": "0.1"}, "(before: --lr 0.005; now: --lr 0.1)"),
        ({"UPDATES": "9"}, "(before: --max-update 10; now: --max-update 9)"),
        ({"UPDATES": "20", "TRAIN_FLAGS": "--fp16"}, "(before: ; now: --fp16)"),
    ):
        said = dry.refused("multi30k", "transformer", **{"UPDATES": "10", **given})
        assert f"multi30k-out/transformer began with other settings {changed}; give another OUT=" in said
    assert len(dry.calls("fairseq-train")) == 3
    dry.run("multi30k", "transformer", UPDATES="20")
    (out / "transformer" / "begun").unlink()
    dry.run("multi30k", "transformer", UPDATES="20", LR="0.1")
    assert len(dry.calls("fairseq-train")) == 5


def test_a_half_trained_system_is_not_taken_for_a_trained_one(dry, out):
    dry.run("multi30k", "transformer", "continued")
    (out / "continued" / "finished").unlink()  # as if it had been interrupted
    assert "multi30k: compare: continued is not trained to its end" in dry.run("multi30k", "compare")
    (out / "transformer" / "finished").unlink()
    said = dry.refused("multi30k", "bert_fused")
    assert "multi30k-out/transformer is not trained to its end; run the step transformer first" in said


def test_the_log_of_a_training_that_was_removed_is_removed_too(dry, out):
    log = out / "transformer.log"
    dry.run("multi30k", "transformer", UPDATES="10")
    log.write_text("valid")
    dry.run("multi30k", "transformer", UPDATES="20")
    assert log.read_text() == "valid"
    shutil.rmtree(out / "transformer")
    dry.run("multi30k", "transformer", UPDATES="10")
    assert log.read_text() == ""


def test_a_system_without_its_checkpoints_is_trained_again(dry, out):
    dry.run("multi30k", "transformer")
    for file in (out / "transformer").glob("*.pt"):
        file.unlink()
    assert "done before" not in dry.run("multi30k", "transformer")
    assert len(dry.calls("fairseq-train")) == 2


@pytest.fixture
def text(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        (folder / name).write_text("a\n" * 3000)
    return folder


def prepared(run, dry, text, preprocess="mkdir -p out[1]/data-bin.new out[1]/text"):
    (dry.path / "venv/bin/fairseq-preprocess").write_text(f"#!/bin/sh\n{preprocess}\n")
    (dry.path / "out[1]" / "text").mkdir(parents=True, exist_ok=True)
    for lang in ("en", "de"):
        (dry.path / "out[1]" / "text" / f"valid.{lang}").write_text("a\n" * 2000)
    return run("tatoeba_en_de", "prepare", DATA=str(text), OUT="out[1]")


def test_other_text_is_noticed(dry, text, tmp_path):
    out = tmp_path / "out[1]"  # to the shell, this is a pattern
    prepared(dry.run, dry, text)
    assert "prepare: done before" in prepared(dry.run, dry, text)
    assert (out / "valid.de").read_text() == "a\n" * 500
    text = shutil.copytree(text, tmp_path / "copy")
    assert "prepare: done before" in prepared(dry.run, dry, text)
    (text / "train.de").write_text("b\n" * 3000)
    (out / "probe" / "plain").mkdir(parents=True)
    (out / "probe" / "plain" / "checkpoint_last.pt").touch()  # of an estimate that was interrupted
    prepared(dry.run, dry, text)
    (text / "train.de").write_text("b\n" * 3001)
    for folder in (out / "transformer", out / "seed-2" / "transformer"):
        folder.mkdir(parents=True)
        (folder / "checkpoint_last.pt").touch()
        assert "out[1] holds models of other text (changed: train.de); give" in prepared(dry.refused, dry, text)
        shutil.rmtree(folder)
    assert prepared(dry.refused, dry, text, preprocess="exit 1")
    assert not (out / "data-bin").exists()


def test_a_later_step_takes_the_settings_that_the_text_was_prepared_with(dry, tmp_path):
    made_from = tmp_path / "own_data-out" / "data-bin" / "made-from"
    made_from.parent.mkdir(parents=True)
    made_from.write_text("en-de --subwords sentencepiece --seed 1 --bert-text\n")
    reverse = {"SRC": "de", "TGT": "en", "DATA": str(tmp_path), "BERT_TEXT": str(tmp_path)}
    assert "(before: en-de --subwords sentencepiece --seed 1 --bert-text; now: de-en --subwords" in dry.refused(
        "own_data", "deploy", **reverse
    )
    given = {"SRC": "en", "TGT": "de", "DATA": str(tmp_path)}
    said = dry.refused("own_data", "deploy", **given)
    before = "(before: en-de --subwords sentencepiece --seed 1 --bert-text;"
    assert f"own_data-out/data-bin was made with other settings {before}" in said
    said = dry.refused("own_data", "deploy", **given, BERT_TEXT=str(tmp_path))
    assert "run the step prepare first" in said  # no text/numbers: the next check
    (tmp_path / "own_data-out" / "text").mkdir()
    (tmp_path / "own_data-out" / "text" / "numbers").write_text("pairs=3000\n")
    (tmp_path / "own_data-out" / "default-bert.en").write_text("other\n")
    said = dry.refused("own_data", "deploy", **given, BERT_TEXT=str(tmp_path))
    assert "own_data-out was prepared with BERT=other; for BERT=some-bert give another OUT=" in said


def test_two_processes_do_not_train_the_same_system(dry, out):
    (out / "transformer").mkdir()
    with (out / "transformer" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "multi30k-out/transformer is being trained by another process" in dry.refused("multi30k", "transformer")
        dry.run("multi30k", "gru_dot")
    dry.run("multi30k", "transformer")


def test_another_encoder_is_another_setting_and_another_environment_is_none(dry, out):
    steps = ("transformer", "bert_fused", "random_bert")
    dry.run("multi30k", *steps, BERT="/old/lib/site-packages/small")
    again = dry.run("multi30k", *steps, BERT="/new/lib/site-packages/small")
    assert [f"{step}: done before" in again for step in steps] == [True] * 3
    assert "transformer: done before" in dry.run("multi30k", "transformer", CONSISTENCY="none")
    for step in steps[1:]:
        assert "began with other settings" in dry.refused("multi30k", step, BERT="/old/lib/site-packages/large")


def test_a_directory_of_an_encoder_is_the_same_however_it_is_named(dry, out, tmp_path):
    (tmp_path / "my bert").mkdir()
    dry.run("multi30k", "transformer", "bert_fused", BERT="my bert")
    for name in ("my bert/", "./my bert", str(tmp_path / "my bert")):
        assert "bert_fused: done before" in dry.run("multi30k", "bert_fused", BERT=name)


def test_the_directory_that_a_recipe_writes_is_not_its_text(dry, text, tmp_path):
    raw = tmp_path / "tatoeba_en_de-out" / "raw"
    raw.parent.mkdir()
    text.rename(raw)
    said = dry.refused("tatoeba_en_de", "prepare", DATA=str(raw))
    assert f"DATA={raw} is written by the recipe itself; give another directory OUT=dir" in said
    assert (raw / "train.en").stat().st_size == 6000


def test_a_limit_stays_unless_it_is_given_and_holds_for_all_seeds_and_new_systems(dry, out):
    def limits(*steps, **given):
        before = len(dry.calls("fairseq-train")) if dry.log.exists() else 0
        dry.run("multi30k", *steps, **given)
        calls = dry.calls("fairseq-train")[before:]
        return [int(call[call.index("--max-update") + 1]) for call in calls]

    steps = ("transformer", "continued", "scratch")
    assert limits(*steps, UPDATES="2000", MORE="1000") == [2000, 1000, 3000]
    assert limits(*steps, SEEDS="1 2") == [2000, 1000, 3000]
    assert limits("continued_r_drop", "bert_fused", "gru_dot") == [1000, 1000, 3000]
    assert limits(*steps[:2], MORE="1500") == [1500]


@pytest.mark.parametrize(("source", "bert"), [("en", "bert-base-cased"), ("de", "bert-base-multilingual-cased")])
def test_another_direction_has_a_bert_of_its_own(dry, tmp_path, source, bert):
    files = {"data-bin/text": "", "data-bin/made-from": "en-fr --seed 9\n", "default-bert.en": "bert-base-cased\n"}
    for name, text in files.items():
        (tmp_path / "own_data-out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own_data-out" / name).write_text(text)
    dry.attempt("own_data", "prepare", SRC=source, TGT="fr", DATA=str(tmp_path), BERT="")
    [call] = [call for call in dry.calls("python") if any("prepare.py" in word for word in call)]
    assert call[call.index("--bert") + 1] == bert
