"""bert-fused-recipe with --mono: from monolingual text to a report on what it adds to BERT, and BERT to it."""

import json
import random
import shutil
from pathlib import Path

import pytest
from documentation import ROOT
from fairseq import options
from fork_server import run_forked
from workspace import hypotheses

from bert_fused_lab.recipe import command, distill, running
from bert_fused_plugin.errors import BertFusedError

ENGLISH = "the a small big old man woman dog house red apple eats sees gives runs".split()
GERMAN = "der ein klein gross alt Mann Frau Hund Haus rot Apfel isst sieht gibt rennt".split()
STEPS = ("reverse", "back_translate", "transformer", "control", "bert_fused")


@pytest.fixture
def mono(dry):
    """The recipe own_data with a text of 3,000 pairs and 6,000 other lines, which are prepared."""
    (dry.path / "mono.de").touch()
    out = dry.prepared("own_data")
    (out / "mono" / "text").mkdir(parents=True)
    known = {"checksum": 0, "lines": 12000, "tokens": 24000}
    (out / "mono" / "text.json").write_text(json.dumps(known))
    (out / "data-bin" / "train.en-de.en.bin").write_text("parallel")
    for folder in (out / "text", out / "mono" / "translated"):
        folder.mkdir()
        for language, line in (("en", "a dog"), ("de", "ein Hund")):
            (folder / f"train.{language}").write_text(f"{line}\n")
    return out


def of(call, flag):
    """Return the last value of a flag, which counts."""
    return call[len(call) - call[::-1].index(flag)]


def test_all_systems_learn_from_what_is_translated_back(dry, mono):
    def run(words, *more):
        dry(words, *more)
        if words[0] == "fairseq-preprocess":
            Path(words[words.index("--destdir") + 1], "train.en-de.en.bin").write_text("synthetic")

    steps = (*STEPS, "distill", "student", "student_control", "compare")
    command.main(dry.arguments("own_data", *steps, mono=".", student="6+2"), run)
    calls = {Path(of(call, "--save-dir")).name: call for call in dry.calls("fairseq-train")}
    assert [*calls] == ["reverse", "transformer", "control", "bert_fused", "student", "student_control"]
    reverse = calls.pop("reverse")
    assert (reverse[0], of(reverse, "--save-dir")) == ("own_data-out/data-bin", "own_data-out/reverse")
    assert (of(reverse, "--source-lang"), of(reverse, "--target-lang")) == ("de", "en")
    for name, call in calls.items():
        folder = "own_data-out/mono/distilled-bert_fused" if name == "student" else "own_data-out/mono"
        assert (call[0], of(call, "--save-dir")) == (f"{folder}/data-bin", f"own_data-out/mono/{name}")
        assert of(call, "--upsample-primary") == "2"
        for split, text in (("train1", "synthetic"), ("train", "parallel")):
            kept = "synthetic" if (name, split) == ("student", "train") else text
            assert (dry.path / call[0] / f"{split}.en-de.en.bin").read_text() == kept
    start = "own_data-out/mono/transformer/checkpoint_best.pt"
    assert start == of(calls["control"], "--finetune-from-model") == of(calls["bert_fused"], "--bert-warm-start")
    [[_, module, text, folder, *words], _] = dry.calls("python")
    assert (module, text, folder) == (
        "bert_fused_lab.recipe.distill",
        "own_data-out/mono/text",
        "own_data-out/mono/translated",
    )
    assert words[:3] == ["de", "en", "own_data-out/mono/text/data-bin"]
    assert (mono / "mono" / "synthetic.en").read_text() == "<s> a dog\n"
    args = options.parse_args_and_arch(
        options.get_generation_parser(), [*words[2:], "--user-dir", str(ROOT / "bert_fused_plugin")]
    )
    assert args.path == "own_data-out/reverse/average.pt"
    assert (args.beam, args.sampling, args.max_len_a, args.max_len_b) == (5, False, 1.5, 10)
    assert of(words, "--seed") == "1"
    again = dry.run("own_data", *steps[:-1], mono=".", student="6+2")
    assert [line for line in again.splitlines() if "done before" in line] == [
        f"{step}: done before" for step in steps[:-1]
    ]


def test_a_downloaded_model_learns_the_other_direction_and_both_texts(dry, mono):
    (dry.path / "imported").mkdir()
    settings = {"flags": ["--dropout 0.4"], "tags": ["eng_Latn", "deu_Latn"]}
    (dry.path / "imported" / "imported.json").write_text(json.dumps(settings))
    (dry.path / "imported" / "checkpoint.pt").touch()
    (mono / "start").symlink_to(dry.path / "imported")
    record = json.loads((mono / "data-bin" / "made-from.json").read_text())
    record["settings"]["--start"] = str(dry.path / "imported")
    (mono / "data-bin" / "made-from.json").write_text(json.dumps(record))
    dry.run("own_data", *STEPS, "compare", mono=".", start="imported")
    reverse, control, fused = dry.calls("fairseq-train")
    imported = dry.run("own_data", "reverse", mono=".", start="imported", reverse="imported")
    assert imported.endswith("reverse: done before\n")
    assert (reverse[0], of(reverse, "--source-lang")) == ("own_data-out/data-bin", "de")
    assert [reverse.count("--dropout"), of(reverse, "--dropout")] == [1, "0.3"]
    start = "own_data-out/start/checkpoint.pt"
    assert start == of(reverse, "--finetune-from-model") == of(control, "--finetune-from-model")
    assert (control[0], of(fused, "--bert-warm-start")) == ("own_data-out/mono/data-bin", start)
    [compare] = dry.calls("bert-fused-compare")
    assert f"as_downloaded={start}" in compare
    assert of(compare, "--baseline").startswith("control_mono=")


def test_the_report_has_the_systems_with_and_without_monolingual_text(dry, mono):
    dry.run("own_data", *STEPS[2:], seeds="1 2")
    dry.run("own_data", *STEPS, "compare", mono=".", seeds="1 2")
    first, both, second, _ = dry.calls("bert-fused-compare")
    for call, seeds in ((first, 1), (second, 2)):
        given = dict(call[i + 1].split("=") for i, word in enumerate(call) if word in ("--baseline", "--run"))
        assert given == {
            f"{name}{end}": ",".join(
                f"own_data-out{folder}{seed}/{name}/average.pt" for seed in ("", "/seed-2")[:seeds]
            )
            for end, folder in (("", ""), ("_mono", "/mono"))
            for name in STEPS[2:]
        }
        assert of(call, "--baseline").startswith("control=")
        assert call[0] == "own_data-out/data-bin"
    compared = [both[i + 1].split("=") for i, word in enumerate(both) if word in ("--baseline", "--run")]
    assert [name for name, _ in compared] == ["bert_fused_mono", "control_mono", "bert_fused"]
    assert compared[0][1] == "own_data-out/mono/bert_fused/average.pt"
    assert of(both, "--output") == "own_data-out/both.html"
    assert "own_data-out/mono takes part only with --mono" in dry.run("own_data", "compare", seeds="1 2")
    assert "compare: own_data-out/seed-2 is not in the report" in dry.run("own_data", "compare", mono=".")
    dry.run("own_data", "compare", mono=".", baseline="control_mono")
    assert of(dry.calls("bert-fused-compare")[-2], "--baseline") == "control_mono=own_data-out/mono/control/average.pt"
    for name in STEPS[2:]:
        shutil.rmtree(mono / name)
    dry.run("own_data", "compare", mono=".")
    assert of(dry.calls("bert-fused-compare")[-1], "--baseline") == "control_mono=own_data-out/mono/control/average.pt"
    assert of(dry.calls("bert-fused-compare")[-1], "--output") == "own_data-out/report.html"


def test_usual_steps_have_the_monolingual_text_at_their_place(dry):
    (dry.path / "mono.de").touch()
    usual = ["prepare", "transformer", "control", "bert_fused", "gru_bahdanau", "compare"]
    args = command.parse_args(dry.arguments("multi30k", mono="."))
    assert args.steps == [usual[0], "reverse", "back_translate", *usual[1:]]
    assert command.parse_args(dry.arguments("multi30k")).steps == usual


def test_systems_have_the_names_of_the_report(dry):
    for given in ("control", "control_mono"):
        args = command.parse_args(dry.arguments("own_data", mono=".", teacher=f"bert_fused {given}", deploy=given))
        assert (args.teacher, args.deploy) == (["bert_fused", "control"], "control")


@pytest.mark.parametrize(("lines", "sampled", "copies"), [(30_000, False, 5), (30_001, True, 5), (4000, False, 1)])
def test_the_search_and_the_share_of_parallel_text_follow_from_the_amounts(dry, mono, lines, sampled, copies):
    (mono / "mono" / "text.json").write_text(json.dumps({"checksum": 0, "lines": lines, "tokens": 1}))
    dry.run("own_data", *STEPS[:3], mono=".")
    [call] = dry.calls("python")
    assert ("--sampling" in call, of(call, "--beam")) == (sampled, "1" if sampled else "5")
    assert of(dry.calls("fairseq-train")[-1], "--upsample-primary") == str(copies)


def test_sizes_follow_the_parallel_text_and_dropout_and_disk_all_text(dry, mono):
    file = mono / "mono" / "text.json"
    file.write_text(json.dumps({"checksum": 0, "lines": 97_000, "tokens": 50_000}))
    # the parallel text comes 16 times, and each sentence has two special tokens
    room = (16 * (6000 + 2 * 3000) + 50_000 + 2 * 97_000) * 384 * 2 / 1e9
    for more, cached in ((1e-4, True), (-1e-4, False)):
        dry.run("own_data", *STEPS, mono=".", cache_gb=room + more)
        assert ("--bert-cache" in dry.calls("fairseq-train")[-1]) is cached
        shutil.rmtree(mono / "mono" / "bert_fused")
    trained = {of(call, "--save-dir"): of(call, "--dropout") for call in dry.calls("fairseq-train")}
    assert (trained["own_data-out/reverse"], trained["own_data-out/mono/transformer"]) == ("0.3", "0.1")
    shutil.rmtree(mono / "mono" / "data-bin")  # other text needs no other reverse
    file.write_text(json.dumps({"checksum": 0, "lines": 20_000, "tokens": 50_000}))
    assert "reverse: done before" in dry.run("own_data", "reverse", mono=".")


@pytest.mark.parametrize(
    ("steps", "given", "message"),
    [
        (["reverse"], {}, "the step reverse needs --mono; give the directory of the monolingual text"),
        (["control"], {"reverse": "nllb"}, "--reverse needs --mono; give the directory of the monolingual text"),
        (
            ["reverse"],
            {"mono": ".", "reverse": "x", "subwords": "none"},
            "--reverse reads raw text",
        ),
        (
            ["back_translate"],
            {"mono": ".", "reverse": "x/nllb"},
            "reverse-x-nllb/checkpoint.pt; run the step reverse",
        ),
        (
            ["reverse"],
            {"mono": ".", "reverse": "imported"},
            "is of other languages; import it with -s de -t en",
        ),
        (["reverse"], {"mono": "data-bin"}, "/data-bin has no mono.de; give the directory of this file"),
        (
            ["reverse"],
            {"mono": ".", "bert_text": "."},
            "--bert-text has no synthetic text, as --mono needs; leave one of them out",
        ),
        (["distill"], {"teacher": "control_mono"}, "name systems, such as bert_fused, got control_mono"),
        (["compare"], {"baseline": "control_mono"}, "name systems, such as bert_fused, got control_mono"),
        (["prepare", "reverse"], {"mono": ".", "out": "new", "reverse": "x"}, "--reverse x cannot be loaded: "),
        (["reverse"], {"mono": ".", "out": "new"}, "there is no new/mono/text.json; run the step prepare first"),
        (["transformer"], {"mono": "."}, "own_data-out/mono/data-bin; run the step back_translate first"),
        (["back_translate"], {"mono": "."}, "own_data-out/reverse/checkpoint_best.pt; run the step reverse first"),
    ],
)
def test_what_monolingual_text_needs(dry, mono, steps, given, message):
    if given.get("out"):
        dry.prepared("own_data", out=given["out"])
    (dry.path / "imported").mkdir()
    (dry.path / "imported" / "imported.json").touch()
    assert message in dry.refused("own_data", *steps, **given)


def test_other_translations_are_noticed(dry, mono):
    dry.run("own_data", *STEPS, mono=".")
    assert "reverse: done before" in dry.run("own_data", "reverse", mono=".", updates=99_999)
    said = dry.refused("own_data", "transformer", "control", mono=".", updates=99_999)
    assert "own_data-out/mono/control began from another transformer; remove it to train it again" in said
    (mono / "mono" / "synthetic.en").write_text("other")
    said = dry.refused("own_data", "control", mono=".")
    assert "own_data-out/mono/control learned from other translations; remove it to train it again" in said
    (mono / "reverse" / "checkpoint.best_bleu_9.50.pt").write_text("of a longer training")
    said = dry.refused("own_data", "back_translate", mono=".")
    assert "own_data-out/mono was begun by another model or another search; remove it" in said


@pytest.mark.parametrize("search", [["--beam", "3"], ["--beam", "1", "--sampling", "--seed", "1"]])
def test_what_is_distilled_is_what_fairseq_translates_also_after_a_kill(workspace, tmp_path, monkeypatch, search):
    for device in ("_PART", "_PART_OF_GPU"):
        monkeypatch.setattr(distill, device, 50)
    flags = ["--user-dir", str(ROOT / "bert_fused_plugin"), "--task", "bert_fused_translation", *search]
    flags += ["--path", workspace.checkpoint, "--max-len-b", "10", "--max-tokens", "120", "--cpu"]
    given, parts = (workspace.path, tmp_path, "en", "de", [workspace.data, *flags]), tmp_path / "parts"
    distill.main(*given)
    before = [*distill.read(tmp_path / "train.de")]
    assert any(before)
    if "--sampling" not in search:
        found = hypotheses(workspace.generate("--gen-subset", "train", "--max-tokens", "120").stdout)
        assert before == [tokens for _, (_, tokens) in sorted(found.items())]
    assert (tmp_path / "train.en").read_bytes() == (workspace.path / "train.en").read_bytes()
    names = sorted(path.name for path in parts.iterdir())
    assert names == ["0-of-3", "1-of-3", "2-of-3"]
    numbers = [int(row.split("\t")[0]) for row in distill.read(parts / names[0])]
    assert 0 < len(numbers) < 150
    (parts / names[0]).write_text("".join(f"{number}\tkept\n" for number in numbers), encoding="utf-8")
    (parts / names[1]).rename(parts / f".{names[1]}.new")  # killed before it had its name
    with running.locked(tmp_path, "made"), pytest.raises(BertFusedError, match="is being made by another process"):
        distill.main(*given)
    distill.main(*given)
    again = ["kept" if number in numbers else line for number, line in enumerate(before)]
    assert [*distill.read(tmp_path / "train.de")] == again
    record = tmp_path / "made-from.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "model 1": 0}))
    with pytest.raises(BertFusedError, match=" is of another text or another model; remove it to begin anew"):
        distill.main(*given)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_monolingual_text_becomes_a_report_on_four_systems(tmp_path, bert_dir):
    rng, (data, out) = random.Random(1), (tmp_path / "data", tmp_path / "out")
    data.mkdir()
    numbers = [[rng.randrange(15) for _ in range(rng.randint(3, 8))] for _ in range(800)]
    pairs = [
        [f"{' '.join(words[i] for i in line)}{end}\n" for words, end in ((ENGLISH, "."), (GERMAN, "!"))]
        for line in numbers
    ]
    for side, lang in enumerate(("en", "de")):
        (data / f"train.{lang}").write_text("".join(pair[side] for pair in pairs[:600]))
    (data / "mono.de").write_text("".join(["\n", *(pair[1] for pair in pairs[500:])]))
    given = ["en", "de", data, f"--bert={bert_dir}", "--symbols=90", "--train-flags=--cpu", f"--out={out}", "--more=2"]

    def run(*words):
        done = run_forked("bert-fused-recipe", *given, *words, cwd=tmp_path, timeout=1000)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    run("prepare", "transformer", "control", "bert_fused", "--updates=4")
    said = run("prepare", "estimate", "reverse", "back_translate", f"--mono={data}", "--updates=150", "--warmup=20")
    assert "expected time, at most: " in said
    assert "(reverse " in said
    synthetic = [[*distill.read(out / "mono" / f"synthetic.{lang}")] for lang in ("en", "de")]
    held_out = {*distill.read(out / "text" / "valid.de"), *distill.read(out / "text" / "test.de")}
    assert 20 < len(synthetic[0]) == len(synthetic[1]) == len({*synthetic[1]}) <= 200
    assert not {*synthetic[1]} & held_out
    for source, target in zip(*synthetic):
        tag, *words = source.split()
        assert tag == "<s>"
        assert words != target.split()
        assert 0 < len(words) <= 3 * len(target.split())
    run("transformer", "control", "bert_fused", "compare", f"--mono={data}", "--updates=4")
    log = (out / "mono" / "bert_fused.log").read_text()
    assert f"train1 en-de {len(synthetic[0])} examples" in log
    report = json.loads((out / "report.json").read_text())
    names = ["control", "transformer", "bert_fused", "transformer_mono", "control_mono", "bert_fused_mono"]
    assert [run["name"] for run in report["runs"]] == names
    assert "Are BERT and monolingual text together better than each alone?" in (out / "both.html").read_text()
    again = run("prepare", "reverse", "back_translate", f"--mono={data}", "--updates=150", "--warmup=20")
    assert again.count("done before\n") == 3
