"""The sentences of the report."""

from types import SimpleNamespace

import pytest

from bert_fused_lab.compare import main
from bert_fused_lab.evidence.files import EvaluationFacts, SystemFacts
from bert_fused_lab.report.comparison import Comparison
from bert_fused_lab.report.scoring import Score
from bert_fused_lab.report.systems import EvaluationSet, Origin, System, described
from bert_fused_lab.report.texts import remarks
from bert_fused_lab.report.verdicts import answer, bert_verdict, fairness, question, unfinished, verdict
from bert_fused_plugin.errors import BertFusedError


def score(gain, better, p=0.25):
    return Score(30.0 + gain, 1.0, [30.0 + gain], None, gain, (gain - 1, gain + 1), p, p, [p], better)


def both(found):
    return {"BLEU": found, "chrF": found}


@pytest.mark.parametrize(("gain", "better", "change"), [(-2, -1, "loses"), (-2, 0, "loses"), (2, 1, "gains")])
def test_what_is_said_of_bert(gain, better, change):
    scores = {"on": {"BLEU": Score(30.0, 1.0, [30.0])}, "shuffled": {"BLEU": score(gain, better)}}
    uses_bert, verdict = bert_verdict("fused", scores)
    used = "fused uses BERT" if better < 0 else "This test set does not show that fused uses BERT"
    interval = f"(95 % interval {gain - 1:+.2f} to {gain + 1:+.2f}, "
    assert verdict.startswith(f"{used}: when BERT reads another sentence, it {change} 2.00 BLEU {interval}")
    assert verdict.endswith("p = 0.250)" + (", which may be chance." if better == 0 else "."))
    assert uses_bert is (better < 0)
    assert bert_verdict("fused", {"on": scores["on"]}) == (None, None)


def test_a_difference_that_only_several_systems_make_uncertain_says_so():
    one_of_several = score(2, 0, p=0.027)
    one_of_several.p_holm = 0.081
    _, said = bert_verdict("fused", {"on": {"BLEU": score(0, 0)}, "shuffled": {"BLEU": one_of_several}})
    assert said.endswith("p = 0.081), which may be chance with several comparisons (alone: p = 0.027).")


@pytest.mark.parametrize("used", [True, False, None])
@pytest.mark.parametrize("better", [1, 0, -1])
def test_the_answer_joins_what_is_gained_and_whether_bert_is_used(better, used):
    fused = SimpleNamespace(name="fused")
    said = answer(fused, "plain", {"fused": both(score(better * 2, better))}, used, False)
    change = {1: "gains 2.00 BLEU", 0: "has the same BLEU", -1: "loses 2.00 BLEU"}[better]
    assert f": against plain, fused {change} (95 % interval " in said
    assert said.startswith("BERT is used") is bool(used)
    assert ("improves" in said) is (better == 1 and used is True)
    assert ("worse" in said) is (better == -1)
    assert ("not show" in said or "makes no difference" in said) is (used is False or better == 0)


def test_models_that_do_not_translate_say_nothing_about_bert():
    scores = {name: both(score(bleu - 30, 0)) for name, bleu in (("plain", 0.0), ("other", 0.1), ("fused", 0.9))}
    runs = [PLAIN, run("fused", "/runs/fused.pt", reads_bert=True)]
    own = SimpleNamespace(scores=scores, systems=runs, runs=runs, test_set=a_set())
    [said] = Comparison._verdicts(own, [])
    assert said == "No system translates yet (BLEU below 1), so this says nothing: train longer."
    states = {"on": scores["fused"], "shuffled": {"BLEU": score(-0.1, -1)}}
    assert bert_verdict("fused", states) == (None, None)


@pytest.mark.parametrize(
    ("origins", "better", "lead"),
    [
        ([], 1, "BERT is used, and improves"),
        (
            ["plain"],
            1,
            "fused is better than plain, but they differ in more than BERT, so this does not tell what ",
        ),
        (
            ["plain"],
            -1,
            "fused is worse than plain, but they differ in more than BERT, so this does not tell what ",
        ),
        (["plain"], 0, "fused and plain do not differ significantly in BLEU, but they differ in more than BERT, so "),
    ],
)
def test_the_page_begins_with_the_answer_about_bert(origins, better, lead):
    fused = run("fused", "/runs/fused.pt", *[BEGUN for _ in origins], reads_bert=True)
    scores = {name: both(score(gain, gain)) for name, gain in (("plain", 0), ("gru", 1), ("fused", better))}
    runs = [PLAIN, fused]
    own = SimpleNamespace(scores=scores, systems=runs, runs=runs, test_set=a_set())
    answer, other = Comparison._verdicts(own, [{"run": "fused", "used": True, "verdict": "x"}])
    assert answer.startswith(lead)
    assert other.startswith("gru ")


@pytest.mark.parametrize("bleu", [1, 0, -1])
def test_what_only_chrf_says_is_said(bleu):
    for chrf in (1, 0, -1):
        scores = {"fused": {"BLEU": score(bleu, bleu), "chrF": score(chrf / 2, chrf, 0.003)}}
        fused = SimpleNamespace(name="fused")
        for said in (verdict("fused", "plain", scores), answer(fused, "plain", scores, True, False)):
            better = {1: "better (+0.50, p = 0.003)", -1: "worse (-0.50, p = 0.003)"}.get(chrf)
            assert said.partition(" By chrF, fused is ")[2] == ("" if chrf in (0, bleu) else f"{better}.")


def test_the_question():
    runs = plain, fused = PLAIN, run("fused", "/runs/fused.pt", reads_bert=True)
    sets = [a_set("test", names=("English", "Chinese"))]
    two = [*sets, a_set("test1")]
    assert question(runs, two) == "Does BERT help English to Chinese on test and test1?"
    assert question([*runs, fused], sets) == "Does BERT help in fused, English to Chinese on test?"
    assert question(runs[::-1], sets) == "Which system is better from English to Chinese on test?"
    assert question([System("marian", [[]]), fused], sets) == "Which system is better from English to Chinese on test?"
    assert question([plain], sets) == "How good is plain from English to Chinese on test?"
    assert question([plain, plain], [a_set(names=("src", "German"))]).endswith("better from Src to German on test?")
    assert question([plain, plain], [a_set()]) == "Which system is better on test?"


def test_numbers_out_of_their_ranges_are_named_together():
    numbers = "--max-len-a=-0.5 --max-len-b=0 --max-tokens=0 --samples=99 --examples=-1 --beam=0 --lenpen=nan"
    with pytest.raises(BertFusedError) as caught:
        main(["data", "--baseline", "a=b", "--output", "c", *numbers.split()])
    assert caught.value.errors == (
        "--beam must be a finite number of at least 1, got 0",
        "--lenpen must be a finite number, got nan",
        "--max-len-a must be a finite number of at least 0, got -0.5",
        "--max-len-b must be a finite number of at least 1, got 0",
        "--max-tokens must be a finite number of at least 1, got 0",
        "--examples must be a finite number of at least 0, got -1",
        "--samples must be a finite number of at least 100, got 99",
    )
    for number in ("--lenpen=-inf", "--max-len-a=inf"):
        with pytest.raises(BertFusedError, match="must be a finite number"):
            main(["data", "--baseline", "a=b", "--output", "c", number])


def run(name, checkpoint, *origins, reads_bert=False, **facts):
    known = {
        **{"key": "x", "architecture": "transformer", "is_transformer": True, "updates": 2000, "max_update": 0},
        **{"parameters": {}, "drops_bert": True, "consistency": "none", "selection": {}, "curves": {}, "states": []},
        **{"decoding": {}, "bf16": False, "hardware": {}, "speed": {}},
    }
    began = [origin._asdict() for origin in origins]
    own = {"checkpoint": str(checkpoint), "reads_bert": reads_bert, "began_from": began, **facts}
    return System(name, [[]], facts=SystemFacts(**{**known, **own}))


def a_set(name="test", references=(), **facts):
    return EvaluationSet(name, [*references], [], EvaluationFacts("x", "data", **facts))


PLAIN = run("plain", "/runs/plain/checkpoint_best.pt")
BEGUN, FUSED = Origin("/runs/plain/checkpoint_best.pt", 1240), "/runs/fused/checkpoint_best.pt"


def test_a_run_that_began_from_the_baseline_needs_a_fair_control():
    fused = run("fused", FUSED, BEGUN, reads_bert=True)
    assert fairness(fused, PLAIN, [PLAIN, fused], "my data") == (
        "fused began from plain and was fine-tuned for 2,000 updates, with a new optimizer and learning rate, so the "
        "difference may come from that training and not from BERT. The fair control is plain fine-tuned for as long, "
        "with the flags of its own training (and --patience, if fused had it): fairseq-train 'my data' ... "
        "--finetune-from-model /runs/plain/checkpoint_best.pt --max-update 2000"
    )
    fused = run("fused", FUSED, BEGUN, reads_bert=True, max_update=10000)  # as long as the run
    assert fairness(fused, PLAIN, [PLAIN, fused], "data").endswith(" --max-update 10000")


def test_a_control_that_is_there_is_named():
    fused = run("fused", FUSED, BEGUN, reads_bert=True)
    control = run("control2", "/runs/control2/checkpoint_best.pt", BEGUN)
    said = fairness(fused, PLAIN, [PLAIN, fused, control], "data")
    assert said.endswith("and control2 is plain, fine-tuned: give control2 as --baseline.")
    assert fairness(control, PLAIN, [PLAIN, fused, control], "data") == (
        "control2 began from plain and was fine-tuned for 2,000 updates, with a new optimizer and learning rate."
    )
    assert fairness(fused, control, [control, fused], "data") is None


X, START = ("/x.pt", 1), Origin("/old/plain/checkpoints/checkpoint_best.pt", 1240)
FROM_X, FROM_PLAIN = "fused began from /x.pt after 1 updates, which began from ", "fused began from plain and was"
MOVED_CONTROL = run("control", "/new/control/checkpoints/average.pt", START)


@pytest.mark.parametrize(
    ("baseline", "checkpoint", "began_from", "beginning"),
    [
        (PLAIN, FUSED, [X, ("/runs/plain/checkpoint_best.pt", 2)], FROM_PLAIN),
        (PLAIN, FUSED, [X, ("/runs/plain/../plain/checkpoint_best.pt", 2)], FROM_PLAIN),
        (PLAIN, FUSED, [X, ("/runs/plain/average.pt", 2)], FROM_PLAIN),
        (PLAIN, FUSED, [X, ("/runs/plain/checkpoint7.pt", 2)], FROM_PLAIN),
        (PLAIN, FUSED, [X, ("/runs/other/checkpoint_best.pt", 2)], FROM_X),
        (PLAIN, FUSED, [X, (None, 2)], FROM_X),
        # a folder that was moved is known by its name
        (PLAIN, FUSED, [("/elsewhere/plain/checkpoint3.pt", 2)], FROM_PLAIN),
        (PLAIN, FUSED, [("/elsewhere/plain/checkpoint_best.pt", 2)], "fused began from /elsewhere/"),
        (PLAIN, FUSED, [("/elsewhere/plain/checkpoint_best.pt", 2000)], FROM_PLAIN),
        (PLAIN, FUSED, [("{here}/plain/checkpoint3.pt", 2)], "fused began from {here}/"),  # has not moved
        # both began from one training, all whose folders have fairseq's own name, and were moved
        (MOVED_CONTROL, "/new/fused/checkpoints/average.pt", [START], "None"),
        # files of one folder with names of their own are other trainings
        (run("plain", "/runs/plain.pt"), "/runs/fused.pt", [("/runs/gru.pt", 5)], "fused began from /runs/gru.pt "),
    ],
)
def test_checkpoints_of_one_training(tmp_path, baseline, checkpoint, began_from, beginning):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "checkpoint3.pt").touch()
    found = [Origin(path and path.format(here=tmp_path), updates) for path, updates in began_from]
    fused = run("fused", checkpoint, *found, reads_bert=True)
    said = str(fairness(fused, baseline, [baseline, fused], "data"))
    assert said.startswith(beginning.format(here=tmp_path))
    unknown = said.endswith(
        ", and no such start of plain is recorded, so the difference may come from that and not from BERT."
    )
    assert unknown is (beginning not in (FROM_PLAIN, "None"))


GRU = {"is_transformer": False, "architecture": "gru_bahdanau"}
BEAM_4, BEAM_5 = {"beam": 4, "max_tokens": 10}, {"beam": 5, "max_tokens": 9}


@pytest.mark.parametrize(
    ("plain", "fused", "said"),
    [
        ({}, {}, None),
        ({}, GRU, "fused is a model of another kind (gru_bahdanau) than plain (transformer)"),
        ({"reads_bert": True}, GRU, None),
        ({}, {"consistency": "r-drop"}, "fused was trained with --consistency r-drop, and plain with none"),
        ({"consistency": "r-drop"}, {"consistency": "r-drop"}, None),
        ({}, {"consistency": "r-drop", "reads_bert": False}, None),
        ({"decoding": BEAM_5}, {"decoding": BEAM_4}, "fused was translated with beam 4, and plain with beam 5"),
    ],
)
def test_what_else_may_be_the_reason_of_a_gain(plain, fused, said):
    plain = run("plain", "/runs/plain.pt", **plain)
    fused = run("fused", "/runs/fused.pt", **{"reads_bert": True, **fused})
    reason = ", so the difference may come from that and not from BERT."
    assert fairness(fused, plain, [plain, fused], "data") == (said and said + reason)


def test_several_reasons_of_a_gain_are_joined():
    begun = run("fused", "/runs/fused.pt", BEGUN, reads_bert=True, consistency="r-drop")
    said = fairness(begun, PLAIN, [PLAIN, begun], "data")
    assert " and not from BERT. fused began from plain and was fine-tuned for 2,000 updates, with a new" in said


def test_who_could_have_learned_more_is_named():
    best_last, best_before = [(100, 2.5), (200, 4.0)], [(100, 4.0), (200, 3.5)]
    trained = [
        run(f"{limit} {curve[-1][1]}", "x.pt", max_update=limit, curves={"valid bleu": curve})
        for limit in (0, 200, 300)
        for curve in (best_last, best_before)
    ]
    assert unfinished([PLAIN, *trained]) == (
        "Of 200 4.0, the last validation before --max-update was the best, so train longer."
    )
    assert unfinished([PLAIN]) is None


def test_a_control_begins_from_the_checkpoint_that_the_run_began_from(tmp_path):
    """The average that is compared is better, and would give it an advantage."""
    best = tmp_path / "checkpoint_best.pt"
    plain = run("plain", tmp_path / "average.pt")
    fused = run("fused", FUSED, Origin(str(best), 1240), reads_bert=True)
    for path in (plain.checkpoint, best):  # the latter is gone at first
        path.touch()
        assert f" --finetune-from-model {path} --max-update " in fairness(fused, plain, [plain, fused], "data")


def remarks_on(references, translations, tokenised=False, **facts):
    return remarks(a_set(references=references, **facts), tokenised, references, translations, [])


TOO_LOW = "the references of --reference are not, so the scores are too low"
CAPITALS = "have capitals, and the data has none"


@pytest.mark.parametrize(
    ("references", "translations", "facts", "said"),
    [
        (["A dog."] * 20, ["A dog."] * 20, {}, ""),
        (["A dog .", *["A dog."] * 19], ["A dog."] * 20, {}, ""),
        ([*["A dog ."] * 3, *["A dog."] * 17], ["A dog."] * 20, {}, "3 of 20 end in a full stop that stands alone"),
        (["A dog."], ["A dog ."], {}, TOO_LOW),
        (["A dog."], ["A dog"], {}, ""),
        (["A dog"], ["A dog ."], {}, ""),
        (["ek।"], ["ek ।"], {}, TOO_LOW),
        (["我。"], ["我 。"], {"bleu_tokenizer": "zh"}, ""),  # no score of Chinese reads the space
        (["A dog."], ["A dog."], {"lower_cased": True}, CAPITALS),
        (["a dog."], ["a dog."], {"lower_cased": True}, ""),
    ],
)
def test_what_is_remarked_of_the_form_of_references(references, translations, facts, said):
    found = remarks_on(references, translations, reference="test.de", **facts)
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_scores_of_tokenised_text_are_said_to_be_such():
    [own] = remarks_on(["A dog ."], ["A dog ."], tokenised=True)
    assert own.startswith("The scores are those of tokenised text")


def test_how_origins_are_said():
    found = [Origin("/a.pt", 1200), Origin(None, None)]
    second = "which began from another checkpoint after an unknown number of updates"
    assert described(found) == f"began from /a.pt after 1,200 updates, {second}"
    assert described([]) == ""


def test_a_place_for_evidence_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BertFusedError, match=r"--evidence .*file/x must be a directory that can be written"):
        main(["data", "--baseline", "a=b", "--output", "c", "--evidence", f"{tmp_path}/file/x"])
