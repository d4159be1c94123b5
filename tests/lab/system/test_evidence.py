"""bert-fused-evidence and bert-fused-report: models on one side of the files, statistics on the other."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from workspace import REPORT_HOW

from bert_fused_lab.evidence.command import main as write_evidence
from bert_fused_lab.evidence.files import EvidenceError, systems_in
from bert_fused_lab.report.command import main
from bert_fused_plugin.errors import BertFusedError

QUICK = ["--samples", "100", "--examples", "2"]


@pytest.fixture(scope="module")
def evidence(workspace, plain, tmp_path_factory):
    """What the real command writes of a transformer, and of two seeds with BERT."""
    folder = tmp_path_factory.mktemp("evidence") / "new"
    seeds = f"{workspace.save_dir},{workspace.checkpoint}"
    runs = ["--run", f"plain={plain}", "--run", f"fused={seeds}"]
    workspace.run("bert-fused-evidence", workspace.data, *runs, "--evidence", folder, *REPORT_HOW)
    return folder


def report(evidence, folder, *flags):
    given = [evidence, "--output", folder / "x.html", "--json", folder / "x.json", *QUICK, *flags]
    main([str(word) for word in given])
    return json.loads((folder / "x.json").read_text(encoding="utf-8"))


def test_the_files(evidence):
    files = {path.relative_to(evidence / "test").as_posix() for path in evidence.rglob("*") if path.is_file()}
    each = {f"{name}/{file}" for name in ("plain.1", "fused.1") for file in ("on.txt", "facts.json", "attention.json")}
    states = {f"fused.1/{state}.txt" for state in ("off", "shuffled", "random")}
    second = {"fused.2/on.txt", "fused.2/facts.json"}
    assert files == {"source.txt", "reference.txt", "facts.json"} | each | states | second
    facts = json.loads((evidence / "test" / "fused.1" / "facts.json").read_text(encoding="utf-8"))
    assert {"torch", "transformers"} <= facts["hardware"].keys()


def test_the_report_reads_no_model(evidence, tmp_path):
    """It runs where neither torch nor fairseq can be imported; its title may change as often as one likes."""
    code = "import sys; sys.modules.update(torch=None, fairseq=None, transformers=None, bert_fused_plugin=None)\n"
    code += "from bert_fused_lab.report.command import main; main()"
    given = [evidence, "--baseline", "plain", "--output", tmp_path / "x.html", "--title", "Is it <good>?", *QUICK]
    done = subprocess.run([sys.executable, "-c", code, *map(str, given)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<h1>Is it &lt;good&gt;?</h1>" in page


def test_evidence_of_another_language_pair_is_not_added_to(evidence, workspace, plain, tmp_path):
    folder = shutil.copytree(evidence, tmp_path / "copy")
    facts = folder / "test" / "facts.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text(encoding="utf-8")), "languages": ["de", "en"]}))
    given = [workspace.data, "--run", f"again={plain}", "--evidence", folder, *REPORT_HOW]
    with pytest.raises(BertFusedError, match="copy is of de-en; compare runs of one language pair"):
        write_evidence(list(map(str, given)))


def test_translations_of_another_test_set_or_of_one_checkpoint_twice_are_refused(evidence, tmp_path):
    folder = shutil.copytree(evidence, tmp_path / "copy")
    plain, fused = (folder / "test" / name / "facts.json" for name in ("plain.1", "fused.2"))
    plain.write_text(json.dumps({**json.loads(plain.read_text(encoding="utf-8")), "form": "of another data-bin"}))
    shutil.copytree(folder / "test" / "fused.1", fused.parent, dirs_exist_ok=True)
    with pytest.raises(EvidenceError) as caught:
        report(folder, tmp_path, "--baseline", "plain")
    first, second = caught.value.errors
    assert "test: plain translated other sentences than those of this test set, or its translations" in first
    assert "test: two seeds of fused are of one checkpoint; remove the folder of one" in second


def test_two_folders_of_one_seed_are_refused_and_a_version_is_part_of_a_name(evidence, tmp_path):
    folder = shutil.copytree(evidence, tmp_path / "copy")
    test = folder / "test"
    shutil.copytree(test / "plain.1", test / "theirs-1.0")
    assert list(systems_in(test)) == ["fused", "plain", "theirs-1.0"]
    shutil.copytree(test / "fused.1", test / "fused")
    with pytest.raises(EvidenceError, match=r"fused and .*fused\.1 are both seed 1 of fused; rename one of them"):
        report(folder, tmp_path, "--baseline", "plain")


def test_a_log_that_comes_later_gives_its_curves(workspace, plain, tmp_path):
    model, file = tmp_path / "model.pt", tmp_path / "kept" / "test" / "plain.1" / "facts.json"
    shutil.copy(plain / "checkpoint_last.pt", model)
    given = [workspace.data, "--run", f"plain={model}", "--evidence", tmp_path / "kept", *REPORT_HOW]
    for log in (False, True):
        if log:
            shutil.copy(plain / "train.log", tmp_path / "model.log")
        write_evidence(list(map(str, given)))
        facts = json.loads(file.read_text(encoding="utf-8"))
        assert ("valid loss" in facts["curves"]) is log
        assert any("no curves" in remark for remark in facts["remarks"]) is not log


def test_all_systems_that_are_there_are_compared_with_all_their_seeds(evidence, tmp_path):
    made = report(evidence, tmp_path, "--baseline", "plain")
    assert [(each["name"], len(each["scores"]["BLEU"]["seeds"])) for each in made["systems"]] == [
        ("plain", 1),
        ("fused", 2),
    ]
    assert [state["name"] for state in made["bert_tests"][0]["states"]] == ["on", "off", "shuffled", "random"]
    assert made["question"] == "Does BERT help English to German on test?"


def test_translations_of_any_toolkit(tmp_path):
    """References, and a folder for each system, are enough."""
    for name, mark in (("joey", "a"), ("marian.1", "b"), ("marian.2", "b")):
        (tmp_path / "news" / name).mkdir(parents=True)
        lines = "".join(f"this is line {i}, {'a' if i % 3 else mark} test.\n" for i in range(40))
        (tmp_path / "news" / name / "on.txt").write_text(lines, encoding="utf-8")
    (tmp_path / "news" / "reference.txt").write_text("".join(f"this is line {i}, a test.\n" for i in range(40)))
    made = report(tmp_path, tmp_path, "--baseline", "joey")
    assert made["question"] == "Which system is better on news?"
    assert made["systems"][0]["scores"]["BLEU"]["score"] == pytest.approx(100)
    assert made["systems"][1]["scores"]["BLEU"]["better"] == -1
    assert len(made["systems"][1]["scores"]["BLEU"]["seeds"]) == 2
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "marian is worse than joey on this test set" in page
    assert not re.search("What does it cost|What does it attend to|Where is it better", page)
    (tmp_path / "news" / "source.txt").write_text("one two\n" * 40)
    assert (
        report(tmp_path, tmp_path, "--baseline", "joey", "--run", "marian")["buckets"]["length"][0]["sentences"] == 40
    )


@pytest.mark.parametrize(
    ("files", "flags", "said"),
    [
        ({}, [], " has no TESTSET/reference.txt; bert-fused-evidence writes it"),
        ({"reference": "a\nb\n", "joey/on": "a\n"}, [], "joey has 1 translations of 2 sentences"),
        (
            {"reference": "a\n", "joey/on": "x@@ y\n"},
            [],
            "joey has subword marks or columns of fairseq-generate in 1 of",
        ),
        ({"reference": "a\n", "joey/on": "a\n", "joey/facts": "{"}, [], "the translations of joey in "),
        (
            {"reference": "a\n", "joey/on": "a\n"},
            ["--run", "joey"],
            "there are two systems of the name joey; rename one",
        ),
        ({"reference": "a\n", "joey/on": "a\n"}, ["--run", "no"], " has no translations of no; it has joey"),
        ({"reference": "a\n", "joey/on": "a\n"}, ["--subset", "no"], "no cannot be read ([Errno 2]"),
        ({"reference": "a\n", "facts": '{"x": 1}'}, [], "test cannot be read (EvaluationFacts"),
        ({"reference": "a\nb\n", "source": "x\n"}, [], "read (source.txt has 1 lines, and reference.txt 2)"),
        ({"reference": ""}, [], "test cannot be read (reference.txt is empty); give it reference.txt, in UTF-8"),
        (
            {"reference": "a\n", "joey/on": "a\n", "../news/reference": "a\n", "../news/joey/on": "a\n"}
            | {"../news/marian/on": "a\n"},
            [],
            "the test sets differ in their systems: news has joey, marian; test has joey; name those that all have",
        ),
    ],
)
def test_what_does_not_fit_is_said(tmp_path, files, flags, said):
    for name, text in files.items():
        file = tmp_path / "test" / (f"{name}.json" if name.endswith("facts") else f"{name}.txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with pytest.raises(EvidenceError) as error:
        report(tmp_path, tmp_path, "--baseline", "joey", *flags)
    assert said in str(error.value)
