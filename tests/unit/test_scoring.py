"""Scores and significance."""

import pytest
import sacrebleu

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.comparison import verdict
from bert_fused_plugin.reports.scoring import FEWEST_SAMPLES, SIGNIFICANT, Scorer

REFERENCES = [f"the {a} {b} sees the {c} ." for a in ("big", "old") for b in "man dog".split() for c in "abcde"]
GOOD = list(REFERENCES)
BAD = [text.replace("sees the", "gives") for text in REFERENCES]


def test_a_system_that_wrote_the_same_does_not_differ():
    _, scores = Scorer(REFERENCES, tokenised=True, samples=50).compare([("base", BAD), ("twin", list(BAD))])
    assert [(score.p, score.better) for score in scores["twin"].values()] == [(1.0, 0)] * 3
    assert [score.p for score in scores["base"].values()] == [None] * 3
    assert "do not differ significantly" in verdict("twin", "base", scores)


def test_equal_scores_do_not_differ():
    other = [text.replace("gives", "takes") for text in BAD]
    _, scores = Scorer(REFERENCES, tokenised=True, samples=50).compare([("base", BAD), ("other", other)])
    assert scores["other"]["TER"].score == scores["base"]["TER"].score
    assert (scores["other"]["TER"].p, scores["other"]["TER"].better) == (1.0, 0)


def test_a_better_and_a_worse_system():
    scorer = Scorer(REFERENCES, tokenised=True, samples=200)
    _, scores = scorer.compare([("base", BAD), ("good", GOOD)])
    assert {metric: score.better for metric, score in scores["good"].items()} == {"BLEU": 1, "chrF": 1, "TER": 1}
    assert scores["good"]["BLEU"].p < 0.05
    assert scores["good"]["TER"].score == 0 < scores["base"]["TER"].score
    assert verdict("good", "base", scores).startswith("good is better than base on this test set: +")
    _, scores = scorer.compare([("base", GOOD), ("bad", BAD)])
    assert {score.better for score in scores["bad"].values()} == {-1}
    assert verdict("bad", "base", scores).startswith("bad is worse than base")


def test_the_fewest_resamples_can_show_a_difference_and_one_less_cannot():
    systems = [("base", BAD), ("good", GOOD)]
    for samples, better in ((FEWEST_SAMPLES, 1), (FEWEST_SAMPLES - 1, 0)):
        _, scores = Scorer(REFERENCES, tokenised=True, samples=samples).compare(systems)
        assert scores["good"]["BLEU"].p == pytest.approx(1 / (samples + 1))
        assert (scores["good"]["BLEU"].p < SIGNIFICANT, scores["good"]["BLEU"].better) == (better == 1, better)


def test_one_other_word_in_one_sentence_is_no_difference():
    almost = ["the big man sees the z .", *GOOD[1:]]
    _, scores = Scorer(REFERENCES, tokenised=True, samples=500).compare([("base", GOOD), ("almost", almost)])
    assert scores["almost"]["BLEU"].score < 100
    assert scores["almost"]["BLEU"].better == 0


def test_scores_and_signatures_are_those_of_sacrebleu():
    signatures, scores = Scorer(REFERENCES, tokenised=True, samples=20).compare([("base", BAD), ("good", GOOD)])
    expected = sacrebleu.corpus_bleu(BAD, [REFERENCES], tokenize="none", force=True).score
    assert scores["base"]["BLEU"].score == pytest.approx(expected)
    assert scores["base"]["chrF"].score == pytest.approx(sacrebleu.corpus_chrf(BAD, [REFERENCES]).score)
    assert "tok:none" in signatures["BLEU"]
    assert "bs:20" in signatures["TER"]
    signatures, _ = Scorer(REFERENCES, tokenised=False, samples=20).compare([("base", BAD), ("good", GOOD)])
    assert "tok:13a" in signatures["BLEU"]


def test_another_number_of_translations_is_refused():
    with pytest.raises(BertFusedError, match="short has 19 translations, but there are 20 references"):
        Scorer(REFERENCES, tokenised=True).compare([("base", GOOD), ("short", GOOD[1:])])


def test_sacrebleu_does_not_repeat_its_warning_of_tokenised_text(caplog):
    references = REFERENCES * 6  # it warns of 100 lines
    Scorer(references, tokenised=False, samples=20).compare([("base", BAD * 6), ("good", references)])
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []
