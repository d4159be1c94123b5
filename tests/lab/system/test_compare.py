"""bert-fused-compare: the real command, and what it refuses."""

import html
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import sacrebleu
import torch
from workspace import REPORT_HOW, REPORT_QUICK, hypotheses, reported

from bert_fused_lab.compare import main, parse_args
from bert_fused_lab.evidence import collection, command
from bert_fused_lab.evidence.collection import Collection
from bert_fused_lab.evidence.files import EvidenceError
from bert_fused_lab.report import texts
from bert_fused_lab.report.page import render
from bert_fused_plugin.errors import BertFusedError

STATES = enumerate(["", ", BERT off", ", BERT shuffled", ", BERT random"], 1)


@pytest.fixture(scope="module")
def written(workspace, plain, tmp_path_factory):
    """The folder with report.html and report.json of the real command."""
    folder = tmp_path_factory.mktemp("report")
    shutil.copytree(workspace.save_dir, folder / "fused")
    (folder / "fused.log").write_text(workspace.first_run.stdout, encoding="utf-8")
    workspace.run(
        "bert-fused-compare", workspace.data, "--baseline", f"plain={plain}",
        "--run", f"fused={folder / 'fused'}", "--run", f"twin={plain / 'checkpoint_best.pt'}",
        "--output", folder / "report.html", "--json", folder / "report.json", *REPORT_HOW,
    )  # fmt: skip
    return folder


def test_a_later_report_translates_only_what_is_new(workspace, plain, tmp_path, monkeypatch):
    keep = ["--evidence", tmp_path / "kept", "--json", tmp_path / "report.json", "--samples", "100", "--examples", "1"]
    keep += REPORT_HOW

    def report(*more):
        words = [workspace.data, "--baseline", f"fused={workspace.save_dir}", "--output", tmp_path / "report.html"]
        main([str(word) for word in (*words, *keep, *more)])
        return json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))

    first, titles = report(), []
    translate = collection.translate
    monkeypatch.setattr(collection, "translate", lambda *of: titles.append(of[-1]) or translate(*of))
    again = report()
    assert {**again, "command": None} == {**first, "command": None}
    assert titles == []
    report("--run", f"plain={plain}")
    assert titles == ["translation 1 of 1: plain"]
    report("--lenpen", "0.6")
    assert titles[1:] == [f"translation {i} of 4: fused{state}" for i, state in STATES]


@pytest.fixture
def refused(workspace, plain, tmp_path):
    """Run the command in this process; return the message of its refusal."""

    def run(*arguments, data=None, baseline=None):
        given = [data or workspace.data, "--baseline", baseline or f"plain={plain}", *REPORT_QUICK]
        given += ["--output", tmp_path / "report.html"]
        with pytest.raises((BertFusedError, EvidenceError)) as error:
            main([str(word) for word in (*given, *(arguments or ["--run", f"fused={workspace.save_dir}"]))])
        assert not list(tmp_path.glob("*.html"))
        return str(error.value)

    return run


def test_the_scores_are_those_of_generate_and_sacrebleu(workspace, plain, written):
    figures = json.loads((written / "report.json").read_text(encoding="utf-8"))
    runs = {run["name"]: run for run in figures["runs"]}
    assert list(runs) == ["plain", "fused", "twin"]
    for name, task in (("plain", "translation"), ("fused", "bert_fused_translation")):
        how = ["--path", runs[name]["checkpoint"], "--remove-bpe", *REPORT_HOW]
        out = workspace.generate(*how, task=task).stdout
        found = hypotheses(out)
        references = dict(re.findall(r"^T-(\d+)\t(.*)$", out, re.MULTILINE))
        texts = [found[i][1] for i in range(30)]
        sides = texts, [[references[str(i)] for i in range(30)]]
        bleu = sacrebleu.corpus_bleu(*sides, tokenize="none", force=True)
        assert runs[name]["scores"]["BLEU"]["score"] == pytest.approx(bleu.score, abs=1e-6)
        assert runs[name]["length"] == pytest.approx(bleu.sys_len / bleu.ref_len, abs=1e-9)
        assert runs[name]["scores"]["chrF"]["score"] == pytest.approx(sacrebleu.corpus_chrf(*sides).score, abs=1e-6)
        assert runs[name]["scores"]["TER"]["score"] == pytest.approx(sacrebleu.corpus_ter(*sides).score, abs=1e-6)
        for number, sentence in figures["sentence_texts"].items():
            assert sentence["translations"][name]["text"] == texts[int(number)]
            assert sentence["reference"] == references[number]


def test_what_the_json_holds(written, plain):
    figures = json.loads((written / "report.json").read_text(encoding="utf-8"))
    first, fused, twin = figures["runs"]
    assert [score["p"] for score in twin["scores"].values()] == [1.0] * 3
    assert figures["examples"]["twin"] == {"best": [], "worst": []}
    assert "tok:none" in figures["signatures"]["BLEU"]
    assert fused["selection"] == {"checkpoints": ["checkpoint_best.pt"], "metric": "loss", "highest": False}
    page = (written / "report.html").read_text(encoding="utf-8")
    assert page.count("fused is checkpoint_best.pt, chosen by the lowest loss on the validation set") == 1
    state = torch.load(plain / "checkpoint_best.pt", weights_only=False)["last_optimizer_state"]["state"]
    assert first["parameters"]["trained"] == sum(each["exp_avg"].numel() for each in state.values())
    assert first["parameters"]["frozen"] == 0 < fused["parameters"]["frozen"]
    assert all(run["speed"]["sentences_per_second"] > 0 for run in figures["runs"])
    assert (list(first["entropy"]), list(fused["entropy"])) == (["source"], ["source", "BERT"])
    [test] = figures["bert_tests"]
    assert [state["name"] for state in test["states"]] == ["on", "off", "shuffled", "random"]
    assert test["states"][0]["scores"]["BLEU"]["score"] == fused["scores"]["BLEU"]["score"]
    assert len({json.dumps(state["scores"]) for state in test["states"]}) > 2
    assert test["drops_bert"] is True
    assert sum(row["sentences"] for row in figures["buckets"]["length"]) == 30
    assert sum(row["sentences"] for row in figures["buckets"]["rare"]) == 30
    assert {"train loss", "valid loss", "valid nll_loss"} <= set(figures["curves"]["plain"])
    assert "valid bleu" in figures["curves"]["fused"]
    assert not [remark for remark in figures["remarks"] if "no curves" in remark]
    assert sorted(os.listdir(written)) == ["fused", "fused.log", "report.html", "report.json"]


def test_runs_are_compared_in_bf16(workspace, plain, report):
    how = ["--samples", "100", "--examples", "2", "--bf16", *REPORT_HOW]  # with the tests of BERT
    figures = reported(workspace.data, f"plain={plain}", f"fused={workspace.save_dir}", how=how)
    assert [remark for remark in figures["remarks"] if "in bfloat16" in remark]
    assert not [remark for remark in report["remarks"] if "in bfloat16" in remark]
    for half, single in zip(figures["runs"], report["runs"]):
        assert half["scores"]["chrF"]["score"] == pytest.approx(single["scores"]["chrF"]["score"], abs=3)
    entropies = [[run["entropy"]["source"] for run in made["runs"]] for made in (figures, report)]
    assert entropies[0] != entropies[1]


def test_the_page_needs_nothing_else(written):
    page = (written / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"https?:|//[a-z]", re.sub(r"<code>.*?</code>", "", page))
    assert not re.findall(r"<(?:link|img|iframe)|@import|url\(", page)
    assert page.count("<polyline") >= 8


def test_each_sentence_of_the_page_has_a_direction_of_its_own(written):
    """Sentences in Arabic, Persian and Hebrew run from the right to the left."""
    page = (written / "report.html").read_text(encoding="utf-8")
    sentences = json.loads((written / "report.json").read_text(encoding="utf-8"))["sentence_texts"].values()
    texts = {
        side: {html.escape(sentence[side], quote=False) for sentence in sentences} for side in ("source", "reference")
    }
    assert set(re.findall(r'<span class="what" dir="auto">(.*?)</span>', page)) == texts["source"]
    shown = re.findall(r'<dd dir="auto">(.*?)</dd>', page)
    assert texts["reference"] <= set(shown)
    examples = page.split('<article class="example">')[1:]
    assert len(shown) == sum(text.split("</article>")[0].count("<dd") for text in examples) > len(examples)
    headings = re.findall(r'element\("th", word, .*\)', page)  # which the script makes
    assert len(headings) == 2
    assert all('dir: "auto"' in heading for heading in headings)


def test_detokenised_references_from_a_file(refused, workspace, plain, tmp_path):
    lines = (workspace.path / "test.de").read_text(encoding="utf-8").replace("@@ ", "").splitlines()
    (tmp_path / "ref").write_text("\n".join(lines) + "\n", encoding="utf-8")
    runs = f"plain={plain}", f"fused={workspace.save_dir}"
    more = ["--reference", tmp_path / "ref", "--detok", "moses"]
    figures = reported(workspace.data, *runs, more=more)
    assert "tok:13a" in figures["signatures"]["BLEU"]
    assert figures["references"] == str(tmp_path / "ref")
    data = shutil.copytree(workspace.data, tmp_path / "data")
    for file in data.glob("test.en-de.de.*"):
        file.unlink()
    assert "no de side of 'test'; give the references: --reference FILE" in refused(data=data)
    assert reported(data, *runs, more=more)["runs"][0]["scores"] == figures["runs"][0]["scores"]


def test_plain_text_in_the_data_is_not_taken_for_tokenised(workspace, plain, monkeypatch):
    read = Collection._references
    monkeypatch.setattr(Collection, "_references", lambda *place: [f"{line}." for line in read(*place)])
    figures = reported(workspace.data, f"plain={plain}", f"fused={workspace.save_dir}")
    assert "tok:13a" in figures["signatures"]["BLEU"]
    assert figures["references"] == f"{workspace.data}, plain text"
    assert not [remark for remark in figures["remarks"] if "tokenised" in remark]


def test_what_is_wrong_with_the_runs_is_told_together(refused, workspace, plain, tmp_path):
    (tmp_path / "empty").mkdir()
    message = refused(
        "--run", f"plain={workspace.save_dir}", "--run", f"a={tmp_path / 'missing.pt'}",
        "--run", f"b={tmp_path / 'empty'}", "--run", f"c={workspace.save_dir},{workspace.save_dir}/checkpoint_best.pt",
    )  # fmt: skip
    missing = "there is no such file; give a checkpoint, or a --save-dir with checkpoint_best.pt"
    expected = [
        "--baseline, --run and --hypotheses must have names of their own, got 'plain' twice; rename one",
        f"--run a={tmp_path / 'missing.pt'}: {missing}",
        f"--run b={tmp_path / 'empty' / 'checkpoint_best.pt'}: {missing}",
        "--run c= must have another checkpoint for each seed; leave out the copies",
    ]
    assert message.splitlines() == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("FUSED --reference HERE/short", "--reference HERE/short has 2 lines, but 'test' of "),
        ("FUSED --reference HERE/no", "--reference HERE/no cannot be read"),
        ("FUSED --bert-documents HERE", "trained with --bert-context, and there is none; leave it out"),
        ("--hypotheses given=HERE/short", "--hypotheses given=HERE/short has 2 lines, but 'test' of "),
        ("--hypotheses given=HERE/short " * 2, "of their own, got 'given' twice; rename one"),
        ("--hypotheses plain=HERE/short", "of their own, got 'plain' twice; rename one"),
        ("FUSED --subset test9", "has no --subset 'test9' for en-de"),
        ("FUSED --subset test --subset valid --reference y", "; write {subset} where their names differ, or choose "),
        ("FUSED --subset test --subset valid --hypotheses x=y", "; write {subset} where their names differ, or choose"),
        ("FUSED --output HERE/no/x.html", "--output HERE/no/x.html must be a file in an existing directory that can"),
        ("FUSED --output HERE", "--output HERE must be a file in an existing directory that can be written"),
        ("FUSED --json HERE/./report.html", "--output and --json must be different files"),
        ("FUSED --scores x=HERE/all", "must be a file for each of plain, fused, and for each seed; write {system} an"),
        ("FUSED --scores x=HERE/{system}.no", "plain.no cannot be read"),
        ("FUSED --scores x=HERE/{system}.few", "plain.few has 2 lines, but 'test' of "),
        ("FUSED --scores x=HERE/{system}.bad", "plain.bad must have one number a line (could not convert string to"),
        ("FUSED --scores x=HERE/{system}.nan", "plain.nan must have one number a line (a score is infinite or no numb"),
        ("FUSED --scores BLEU=HERE/{system}.bad", "there are two metrics of the name BLEU; give each of --scores and "),
    ],
)
def test_files_that_do_not_fit(refused, workspace, tmp_path, words, said):
    files = {"short": "a\nb\n", "plain.few": "1\n2\n", "plain.bad": "1\nn/a\n" + "3\n" * 28}
    for name, text in {**files, "plain.nan": "nan\n" + "3\n" * 29}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = words.replace("FUSED", f"--run fused={workspace.save_dir}").replace("HERE", str(tmp_path))
    assert said.replace("HERE", str(tmp_path)) in refused(*words.split())


def test_translations_from_a_file(workspace, plain, written, tmp_path):
    """Those of a run, given as a file, have the scores of the run, a verdict, and a place in every table."""
    out = workspace.generate("--path", workspace.save_dir + "/checkpoint_best.pt", "--remove-bpe", *REPORT_HOW).stdout
    found = hypotheses(out)
    (tmp_path / "file").write_text("".join(f"{found[i][1]}\n" for i in range(30)), encoding="utf-8")
    figures = reported(workspace.data, f"plain={plain}", more=["--hypotheses", f"given={tmp_path / 'file'}"])
    given = figures["systems"][1]
    fused = json.loads((written / "report.json").read_text(encoding="utf-8"))["runs"][1]
    assert (given["name"], given["length"]) == ("given", fused["length"])
    assert [score["score"] for score in given["scores"].values()] == [
        score["score"] for score in fused["scores"].values()
    ]
    [verdict] = figures["verdicts"]
    assert verdict.startswith("No system translates yet")
    assert set(figures["buckets"]["length"][0]["BLEU"]) == {"plain", "given"}
    page = render(figures)
    assert page.count("</span>given</th>") == 1 + 2  # scores, and two tables of buckets
    for number in figures["examples"]["given"]["best"]:
        assert figures["sentence_texts"][number]["translations"]["given"]["text"] == found[number][1]


def test_several_seeds_and_test_sets(workspace, plain, report, tmp_path):
    """test-b is found by itself; it is the test set in another order, so that it has the same scores."""
    data = shutil.copytree(workspace.data, tmp_path / "data")
    for file in sorted(data.glob("test.*")):
        shutil.copy(file, data / file.name.replace("test.", "test-b."))
    for name, step in (("test", 1), ("test-b", -1)):
        (tmp_path / f"{name}.hyp").write_text("".join(f"a {i}\n" for i in range(30))[::step].strip() + "\n")
    runs = [f"plain={plain}", f"fused={workspace.save_dir},{workspace.checkpoint},{plain}"]
    made = reported(data, *runs, more=["--hypotheses", f"other={tmp_path}/{{subset}}.hyp"])
    assert made["question"] == "Does BERT help English to German on test and test-b?"
    first, second = made["tests"]
    assert (first["subset"], second["subset"], second["sentences"]) == ("test", "test-b", 30)
    plain_scores, fused, _ = (system["scores"]["chrF"] for system in first["systems"])
    once = report["runs"][1]["scores"]["chrF"]
    assert fused["seeds"][0] == once["score"]
    assert fused["seeds"][2] == plain_scores["score"] == plain_scores["seeds"][0]
    assert fused["score"] == pytest.approx(sum(fused["seeds"]) / 3)
    assert fused["p_seeds"][2] == 1.0
    assert second["systems"][1]["scores"]["chrF"] == fused
    assert [len(system["scores"]) for system in second["systems"]] == [3, 3, 3]
    assert made["runs"][1]["seeds"] == [
        f"{workspace.save_dir}/checkpoint_best.pt", workspace.checkpoint, f"{plain}/checkpoint_best.pt"
    ]  # fmt: skip
    assert made["runs"][1]["checkpoint"] == made["runs"][1]["seeds"][0]
    page = render(made)
    assert page.count('<p class="answer">') == 2
    assert "otherwise, the seeds of both are taken to vary alike" in page
    assert [page.count(f">{name}, BLEU of each seed: ") for name in ("plain", "fused", "other")] == [2, 2, 2]
    one = ["--subset", "test", "--hypotheses", f"other={tmp_path}/test.hyp"]
    assert len(reported(data, runs[0], more=one)["tests"]) == 1


def test_names_of_test_sets_may_have_dots(tmp_path):
    for name in ("train", "test", "test-v1.2", "test-a b", "test1", "test.bert"):
        for end in ("en.bin", "en.idx", "de.bin", "de.idx"):
            (tmp_path / f"{name}.en-de.{end}").touch()
    (tmp_path / "test2.en-de.en").touch()  # --dataset-impl raw
    assert command.test_sets(str(tmp_path)) == ["test", "test1", "test2", "test-a b", "test-v1.2"]


RAW, TOKENISED = ["A dog."] * 10, ["A dog ."] * 10


@pytest.mark.parametrize(
    ("lines", "references", "said"),
    [
        (RAW, RAW, None),
        (["A dog"] * 10, TOKENISED, None),  # no full stop that could tell
        (["wo@@ rd", *RAW[1:]], RAW, "has subword marks or columns of fairseq-generate in 1 of 10 lines, such as"),
        (["\u2581A dog"] * 10, RAW, "has subword marks or columns of fairseq-generate in 10 of 10 lines"),
        (["H-3\t-0.5\tA dog."] * 10, RAW, "has subword marks or columns of fairseq-generate in 10 of 10 lines"),
        (RAW, TOKENISED, "is detokenised, and the references are tokenised; give the translations tokenised, or deto"),
        (TOKENISED, RAW, "is tokenised, and the references are detokenised; give the translations detokenised, or to"),
    ],
)
def test_translations_in_another_form_are_refused(lines, references, said):
    found = texts.form_error("--hypotheses other", lines, references)
    assert (found is None) if said is None else found.startswith(f"--hypotheses other {said}")


def test_final_marks_of_other_scripts_tell_tokenised_text():
    assert texts.marks_apart(["那个男人。", "他来吗？"], 1.0) == 0
    assert texts.marks_apart(["那个 男人 。", "他来吗？"], 0.0) == 0.5


def test_data_that_do_not_fit(refused, workspace, plain, tmp_path):
    data = shutil.copytree(workspace.data, tmp_path / "data")
    symbols = (data / "dict.en.txt").read_text(encoding="utf-8").splitlines()
    for lang in ("en", "de"):
        (data / f"dict.{lang}.txt").write_text("\n".join(symbols[::-1]) + "\n", encoding="utf-8")
    message = refused(data=data)
    assert f"--run fused={workspace.save_dir}/checkpoint_best.pt: the checkpoint was trained with another so" in message
    remarks = reported(data, f"plain={plain}", f"again={plain / 'checkpoint_best.pt'}")["remarks"]
    said = f"plain may have been trained with another dictionary: {workspace.data}/dict.en.txt differs from {data}/dict"
    assert [remark for remark in remarks if remark.startswith(said)]


def test_runs_from_elsewhere(refused, workspace, plain, tmp_path, monkeypatch):
    """Where the data of the training are gone, dictionaries cannot be compared, and BERT's text may differ."""
    moved = edited(plain / "checkpoint_best.pt", tmp_path / "moved.pt", data=str(tmp_path / "gone"))
    data = shutil.copytree(workspace.data, tmp_path / "data")
    for lang in ("en", "de"):
        with open(data / f"dict.{lang}.txt", "a", encoding="utf-8") as file:
            file.write("new 1\n")
    message = refused("--run", f"a={workspace.save_dir}", data=data, baseline=f"b={moved}")
    assert f"--baseline b={moved} does not fit {data}; was it trained on this data?" in message
    other = edited(plain / "checkpoint_best.pt", tmp_path / "other.pt", _name="translation_lev")
    message = refused("--run", f"c={other}")
    assert message == f"--run c={other} was trained with --task translation_lev; give runs of translation or " + (
        "bert_fused_translation"
    )
    raw = edited(Path(workspace.checkpoint), tmp_path / "raw.pt", bert_text="some/where", data=str(data))
    monkeypatch.setattr("bert_fused_lab.evidence.runs.is_sentence_encoder", lambda name: True)
    remarks = reported(workspace.data, f"plain={plain}", f"raw={raw}")["remarks"]
    assert [remark for remark in remarks if remark.startswith("raw was trained with --bert-text")]
    assert not [remark for remark in remarks if "another dictionary" in remark]  # raw has a record, and plain the same
    assert [remark for remark in remarks if "which was made to compare sentences and has " in remark]


def edited(checkpoint, target, **task):
    """Save *checkpoint* as *target* with another configuration of its task."""
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["task"].update(task)
    torch.save(state, target)
    return target


def test_a_run_of_the_other_direction_is_refused(refused, plain, tmp_path):
    back = edited(plain / "checkpoint_best.pt", tmp_path / "back.pt", source_lang="de", target_lang="en")
    message = refused("--run", f"back={back}")
    best = plain / "checkpoint_best.pt"
    assert message.startswith(f"--baseline plain={best} translates en-de, --run back={back} translates de-en; compare")


@pytest.mark.parametrize("given", ["checkpoints", "BERT/R-Drop=checkpoints"])
def test_a_run_without_a_name_or_with_one_that_names_no_file_is_refused(capsys, given):
    with pytest.raises(SystemExit):
        parse_args(["data", "--baseline", given, "--output", "unused"])
    rule = "must be NAME=PATH, or NAME=PATH,PATH for two seeds, with no / in NAME"
    assert f"argument --baseline: {rule}, got '{given}'" in capsys.readouterr().err
