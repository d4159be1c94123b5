"""bert-fused-recipe, run again: what is done is not done twice, and what is not done is not taken for done."""

import fcntl
import json
import shutil
from pathlib import Path

import pytest
import torch

from bert_fused_lab.recipe import command
from bert_fused_lab.recipe import data as recipe_data
from bert_fused_lab.recipe.running import locked, run_command, settings_of
from bert_fused_lab.recipe.steps import Recipe
from bert_fused_plugin.errors import BertFusedError


def unfinished(folder):
    """Make the record of a system that of a training that was interrupted."""
    file = folder / "recipe.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "finished": False}))


def test_what_began_from_another_transformer_is_not_taken_for_done(dry, out):
    dry.run("multi30k", "transformer", "control", "bert_fused", updates=10)
    assert "control: done before" in dry.run("multi30k", "transformer", "control", updates=10)
    dry.run("multi30k", "transformer", updates=20)
    for step in ("control", "bert_fused"):
        said = dry.refused("multi30k", step, updates=20)
        assert f"multi30k-out/{step} began from another transformer; remove it to train it again" in said
        shutil.rmtree(out / step)
        dry.run("multi30k", step, updates=20)


def test_a_training_goes_on_only_with_the_settings_that_it_began_with(dry, out):
    dry.run("multi30k", "transformer", updates=10)
    for spelling in (f"{out}/", "./multi30k-out"):
        assert "transformer: done before" in dry.run("multi30k", "transformer", updates=10, out=spelling)
    assert "transformer: done before" in dry.run("multi30k", "transformer", lr="5e-3")  # no limit is given
    assert "control: 7 updates" in dry.run("multi30k", "control", more=7)
    unfinished(out / "control")
    assert "control: 7 updates" in dry.run("multi30k", "control")
    for given, changed in (
        ({"lr": 0.1}, "(before: --lr 0.005; now: --lr 0.1)"),
        ({"updates": 9}, "(before: --max-update 10; now: --max-update 9)"),
        ({"updates": 20, "train_flags": "--fp16"}, "(before: ; now: --fp16)"),
    ):
        said = dry.refused("multi30k", "transformer", **{"updates": 10, **given})
        assert f"multi30k-out/transformer began with other settings {changed}; give another --out" in said
    assert len(dry.calls("fairseq-train")) == 3
    dry.run("multi30k", "transformer", updates=20)
    (out / "transformer" / "recipe.json").unlink()
    dry.run("multi30k", "transformer", updates=20, lr=0.1)
    assert len(dry.calls("fairseq-train")) == 5


def test_later_calls_keep_the_settings_of_the_last_training(dry):
    dry.prepared("own_data")
    given = {"train_flags": "--cpu --clip-norm 1", "bert_flags": "--bert-layer 3", "size": "iwslt", "lr": "0.1"}
    said = dry.run("own_data", "transformer", **given, warmup=20, consistency="simcut", updates=20)
    assert "transformer will end within its warm-up" in said
    assert "warm-up" not in dry.run("own_data", "transformer", updates=21).partition("\n")[2]
    dry.refused("own_data", "transformer", train_flags="--cpu")
    dry.run("own_data", "bert_fused")
    first, _, fused = dry.calls("fairseq-train")
    for flag, value in {"--clip-norm": "1", "--bert-layer": "3", "--consistency": "simcut"}.items():
        assert fused[fused.index(flag) + 1] == value
    assert "bert_fused_iwslt_de_en" in fused
    assert first[first.index("--lr") + 1] == "0.1"
    said = dry.refused("own_data", "transformer", train_flags="", size="auto")
    assert "now: --arch transformer" in said


def test_a_later_call_on_another_device_trains_models_of_the_same_size(dry, monkeypatch):
    record = dry.prepared("own_data") / "data-bin" / "made-from.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "pairs": 10_000}))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    dry.run("own_data", "transformer")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    dry.run("own_data", "bert_fused", train_flags="--cpu")
    assert "bert_fused_iwslt_de_en" in dry.calls("fairseq-train")[-1]


def test_settings_are_compared_by_their_values():
    words = "fairseq-train out/data-bin --lr 5e-4 --fp16 --lr=0.001 --save-dir out/x --bert-model /a/site-packages/b"
    values = settings_of([*words.split(), "--bert-cache", "out/c", "--eval-bleu-args", '{"beam":1}'], Path("out"))
    assert values == {
        "": ["OUT/data-bin"], "--lr": [0.001], "--fp16": [], "--save-dir": ["OUT/x"], "--bert-model": ["b"],
        "--eval-bleu-args": [{"beam": 1}],
    }  # fmt: skip


def test_a_half_trained_system_is_not_taken_for_a_trained_one(dry, out):
    dry.run("multi30k", "transformer", "control")
    unfinished(out / "control")
    assert "control is not trained to its end" in dry.run("multi30k", "compare")
    unfinished(out / "transformer")
    said = dry.refused("multi30k", "bert_fused")
    assert "multi30k-out/transformer is not trained to its end; run the step transformer first" in said


def test_a_training_that_fails_is_not_finished(dry, out):
    dry.fails = "fairseq-train"
    dry.refused("multi30k", "transformer", updates=7)
    (out / "transformer" / "checkpoint_best.pt").touch()  # which it had written
    dry.fails = None
    assert "transformer: 7 updates" in dry.run("multi30k", "transformer")  # the limit stays


def test_the_log_of_a_training_that_was_removed_is_removed_too(dry, out):
    log = out / "transformer.log"
    dry.run("multi30k", "transformer", updates=10)
    log.write_text("valid")
    dry.run("multi30k", "transformer", updates=20)
    assert log.read_text() == "valid"
    shutil.rmtree(out / "transformer")
    dry.run("multi30k", "transformer", updates=10)
    assert log.read_text() == ""


def test_a_system_without_its_checkpoints_is_trained_again(dry, out):
    dry.run("multi30k", "transformer")
    for file in (out / "transformer").glob("*.pt"):
        file.unlink()
    assert "done before" not in dry.run("multi30k", "transformer")
    assert len(dry.calls("fairseq-train")) == 2


@pytest.fixture
def text(dry, monkeypatch):
    """Text in subwords; the encoder is not loaded."""
    monkeypatch.setattr(recipe_data, "description", lambda name, flags: "x")
    folder = dry.path / "data"
    folder.mkdir()
    for split, lines in (("train", 3000), ("valid", 2000), ("test", 3)):
        for lang in ("en", "de"):
            (folder / f"{split}.{lang}").write_text(f"a {lang}\n" * lines)
    return folder


def test_other_text_is_noticed(dry, text, monkeypatch):
    out, given = dry.path / "out[1]", {"data": text, "out": "out[1]"}  # to the shell, this is a pattern
    said = dry.run("multi30k", "prepare", **given)
    assert "prepare: trainings validate on 500 of the 2,000 pairs of valid, evenly taken" in said
    made = json.loads((out / "data-bin" / "made-from.json").read_text())
    assert (made["pairs"], made["tokens"], made["text"]) == (3000, 10000, str(text))
    mono = out / "mono" / "text.json"
    mono.parent.mkdir()
    mono.touch()
    assert "prepare: done before" in dry.run("multi30k", "prepare", **given)
    assert (out / "valid.de").read_text() == "a de\n" * 500
    text = given["data"] = shutil.copytree(text, dry.path / "copy")
    assert "prepare: done before" in dry.run("multi30k", "prepare", **given)
    assert recipe_data.text_of(command.parse_args(dry.arguments("multi30k", **given)), made) == text
    (text / "train.de").write_text("b\n" * 3000)
    (out / "probe" / "plain").mkdir(parents=True)
    (out / "probe" / "plain" / "checkpoint_last.pt").touch()  # of an estimate that was interrupted
    assert mono.exists()
    dry.run("multi30k", "prepare", **given)
    assert not mono.exists()  # its subwords may now be others
    (text / "train.de").write_text("b\n" * 2999 + "c\n")
    part = mono.parent / "translated" / "parts" / "0-of-1"
    models = [out / folder / "transformer" / "checkpoint_last.pt" for folder in ("", "seed-2")]
    for file in (part, *models):
        file.parent.mkdir(parents=True)
        file.touch()
        said = dry.refused("multi30k", "prepare", **given)
        assert (
            "out[1] holds models or translations of other text (changed: train.de); give this data another --out"
            in said
        )
        file.unlink()
    assert "copy has changed since the step prepare" in dry.refused("multi30k", "transformer", **given)
    dry.fails = "fairseq-preprocess"
    assert dry.refused("multi30k", "prepare", **given)
    dry.fails = None
    (text / "train.de").write_text("b\n" * 3000)
    real = recipe_data.count
    monkeypatch.setattr(recipe_data, "count", {}.__getitem__)
    with pytest.raises(KeyError):  # killed before the record is written
        dry.run("multi30k", "prepare", **given)
    monkeypatch.setattr(recipe_data, "count", real)
    assert "prepare: BERT is some-bert" in dry.run("multi30k", "prepare", **given)


def test_text_is_fetched_or_made_by_the_program_of_the_recipe(dry, text):
    def fetch(words, *rest, **more):
        if words[0].endswith("prepare.sh"):
            shutil.copytree(text, words[1], dirs_exist_ok=True)
        dry(words, *rest, **more)

    from bert_fused_lab.recipe import command

    command.main(dry.arguments("multi30k", "prepare", data=""), fetch)
    [words] = [words for words in dry.words if words[0].endswith("/multi30k/prepare.sh")]
    assert words[1:] == ["multi30k-out/text"]
    assert "done before" in dry.run("multi30k", "prepare", data="")
    with pytest.raises(BertFusedError):  # the encoder of the test knows no language
        command.main(dry.arguments("tatoeba_en_de", "prepare", data=str(text)), fetch)
    [words] = [words for words in dry.words if words[0].endswith("/tatoeba_en_de/prepare.sh")]
    assert words[1:] == ["tatoeba_en_de-out/raw", str(text)]
    assert "DATA None is no directory" in dry.refused("tatoeba_en_de", "prepare", data="")


def test_a_later_step_takes_the_settings_that_the_text_was_prepared_with(dry):
    (dry.path / "segmented").mkdir()
    dry.prepared("own_data", bert_text="segmented")
    said = dry.refused("own_data", "deploy", source="de", target="en", bert_text="segmented")
    assert "own_data-out/data-bin was made with other settings (before: SRC en, TGT de; now: SRC de, TGT en)" in said
    said = dry.refused("own_data", "deploy")
    assert "(before: --bert-text True; now: --bert-text False); give them again, or another --out" in said
    said = dry.refused("own_data", "deploy", bert_text="segmented", bert="other")
    assert "own_data-out was prepared with --bert some-bert; for --bert other give another --out" in said
    said = dry.refused("own_data", "compare", bert_text="segmented", seeds=2)
    assert "was made with other settings (before: --seeds 1; now: --seeds 2)" in said
    assert "run the step student first" in dry.refused("own_data", "deploy", bert_text="segmented")


def test_two_processes_do_not_train_the_same_system(dry, out):
    (out / "transformer").mkdir()
    with (out / "transformer" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (out / "transformer.log").write_text("of this process")
        assert "multi30k-out/transformer is being trained by another process" in dry.refused("multi30k", "transformer")
        assert (out / "transformer.log").exists()
        dry.run("multi30k", "gru_dot")
    dry.run("multi30k", "transformer")


def test_an_encoder_in_another_environment_is_the_same(dry):
    file = dry.prepared("own_data") / "data-bin" / "made-from.json"
    file.write_text(file.read_text().replace("some-bert", "/old/lib/site-packages/small"))
    (dry.path / "own_data-out" / "random-small").mkdir()
    steps = ("transformer", "bert_fused", "random_bert")
    dry.run("own_data", *steps, bert="/old/lib/site-packages/small")
    file.write_text(file.read_text().replace("/old/", "/new/"))
    again = dry.run("own_data", *steps, bert="/new/lib/site-packages/small", consistency="none")
    assert [f"{step}: done before" in again for step in steps] == [True] * 3


def test_a_directory_of_an_encoder_is_the_same_however_it_is_named(dry):
    folder = dry.path / "my bert"
    folder.mkdir()
    file = dry.prepared("own_data") / "data-bin" / "made-from.json"
    file.write_text(file.read_text().replace("some-bert", str(folder)))
    dry.run("own_data", "transformer", "bert_fused", bert="my bert")
    for name in ("my bert/", "./my bert", folder):
        assert "bert_fused: done before" in dry.run("own_data", "bert_fused", bert=name)


def test_text_that_was_split_before_need_not_be_named_again(dry):
    file = dry.prepared("multi30k") / "data-bin" / "made-from.json"
    file.write_text(file.read_text().replace('"text": null', f'"text": "{dry.path}"'))
    dry.run("multi30k", "transformer", data="")
    assert len(dry.calls("fairseq-train")) == 1


def test_a_limit_stays_unless_it_is_given_and_holds_for_all_seeds_and_new_systems(dry, out):
    def limits(*steps, **given):
        before = len(dry.calls("fairseq-train"))
        dry.run("multi30k", *steps, **given)
        calls = dry.calls("fairseq-train")[before:]
        return [int(call[call.index("--max-update") + 1]) for call in calls]

    steps = ("transformer", "control", "scratch")
    assert limits(*steps, updates=2000, more=1000) == [2000, 1000, 3000]
    assert limits(*steps, seeds="1 2") == [2000, 1000, 3000]
    assert limits("control_r_drop", "bert_fused", "gru_dot") == [1000, 1000, 3000]
    assert limits(*steps[:2], more=1500) == [1500]


def test_a_command_that_fails_names_its_log(tmp_path, capsys):
    log = tmp_path / "x.log"
    words = ["python", "-c", "print('no space'); raise SystemExit(3)"]
    with pytest.raises(BertFusedError, match=r"python ended with status 3; all that it said is in .*x\.log"):
        run_command(words, log)
    said = capsys.readouterr()
    assert said.out == "$ python -c 'print('\"'\"'no space'\"'\"'); raise SystemExit(3)'\n"
    assert "no space" in said.err
    killed = ["python", "-c", "import os; os.kill(os.getpid(), 9)"]
    with pytest.raises(BertFusedError, match=r"status -9 \(killed, perhaps because the memory was full\)$"):
        run_command(killed)
    capsys.readouterr()
    with pytest.raises(BertFusedError, match=r"python ended with status 3; "):
        run_command(words, log, training=5)
    assert capsys.readouterr().out.endswith("\nno space\n")  # as a training that shows its log
    assert log.read_text() == "no space\n" * 2


def test_a_directory_of_bert_that_has_moved_is_named(tmp_path):
    from bert_fused_lab.recipe.encoder import layer_and_width

    with pytest.raises(BertFusedError, match=f"--bert {tmp_path}/old is gone; put it back, or a link to it"):
        layer_and_width(f"{tmp_path}/old")


@pytest.mark.parametrize(("source", "bert"), [("en", "bert-base-cased"), ("de", "bert-base-multilingual-cased")])
def test_each_language_has_a_default_encoder(monkeypatch, source, bert):
    from bert_fused_lab.recipe import encoder

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(encoder, "file_of_model", lambda name, file: "config.json")
    assert encoder.choose_bert(None, source)[0] == bert
    assert encoder.choose_bert("other", source) == ("other", "as --bert or the variable BERT says")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert (encoder.choose_bert(None, source)[0] == "minilm") is (source == "en")


def test_text_is_not_replaced_under_a_training(dry, text):
    given = {"data": text, "out": "out"}
    dry.run("multi30k", "prepare", **given)
    (text / "test.en").write_text("b\n" * 3)
    for folder in ("transformer", "mono/translated"):
        (dry.path / "out" / folder).mkdir(parents=True)
        with locked(dry.path / "out" / folder, "made"):
            said = dry.refused("multi30k", "prepare", **given)
        assert f"out/{folder} is being used by another process; wait for it, or end it" in said
    dry.run("multi30k", "prepare", **given)


def test_other_gpus_are_noticed(dry, out, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    dry.run("multi30k", "transformer")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    said = dry.run("multi30k", "control")
    assert "earlier trainings had batches of 4 GPUs, now of 1: give as many" in said


def test_an_out_that_cannot_be_used_is_named(dry, text):
    (dry.path / "file").touch()
    assert "file cannot be used (File exists)" in dry.refused("multi30k", "prepare", data=text, out="file")
    (dry.path / "models" / "a").mkdir(parents=True)
    (dry.path / "models" / "a" / "checkpoint_best.pt").touch()
    said = dry.refused("multi30k", "prepare", data=text, out="models")
    assert "models holds a/checkpoint_best.pt, but no text of this recipe; give another --out" in said


def test_an_unknown_step_of_a_file_of_settings_is_named(dry):
    (dry.path / "settings.yaml").write_text("default_steps: prepare transfomer\nscript: tools/make.sh\n")
    with pytest.raises(BertFusedError, match="there is no step transfomer; the steps are prepare estimate"):
        command.main(["en", "de", ".", "--settings", "settings.yaml"])


def test_what_the_report_searches_with_is_what_teachers_search_with(dry):
    (dry.path / "settings.yaml").write_text("scoring: --lenpen=0.6 --beam 4 --quiet\n")
    args = command.parse_args(["en", "de", ".", "--settings", "settings.yaml", "--subwords", "none"])
    assert Recipe(args, run_command)._search() == ["--beam", "5", "--beam", "4", "--lenpen", "0.6"]


def test_a_seed_after_one_that_is_missing_is_not_paired_with_another(dry, out):
    dry.run("multi30k", "transformer", "control", "bert_fused", seeds="1,2,3")
    shutil.rmtree(out / "seed-2" / "bert_fused")
    said = dry.run("multi30k", "compare", seeds="1,2,3")
    folder = f"{out.name}/seed-{{}}/bert_fused".format
    assert f"compare: not in the report: {folder(3)}; train the seed before, {folder(2)}" in said
    words = dry.calls("bert-fused-compare")[-1]
    runs = [words[i + 1] for i, word in enumerate(words) if word in ("--baseline", "--run")]
    assert {run.split("=")[0]: run.count(",") + 1 for run in runs} == {"control": 3, "bert_fused": 1, "transformer": 3}
    shutil.rmtree(out / "bert_fused")
    said = dry.run("multi30k", "compare", seeds="1,2,3")
    assert f"compare: not in the report: {folder(3)}; train the seed before, {out.name}/bert_fused" in said
