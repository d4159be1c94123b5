"""Scores, significance, and the groups of sentences."""

from collections import Counter

import pytest
import sacrebleu
import torch

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.bert_ablations import derangement
from bert_fused_plugin.reports.buckets import by_length, by_rare_words, rare_word_counts, words_of
from bert_fused_plugin.reports.comparison import bert_verdict, verdict
from bert_fused_plugin.reports.scoring import Score, Scorer

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
    with pytest.raises(BertFusedError, match="short has 19 translations, there are 20 references"):
        Scorer(REFERENCES, tokenised=True).compare([("base", GOOD), ("short", GOOD[1:])])


def test_groups_of_lengths():
    buckets = by_length([1, 10, 11, 30, 31, 400, 2])
    assert [(b.name, b.numbers) for b in buckets] == [
        ("1-10", [0, 1, 6]),
        ("11-15", [2]),
        ("26-30", [3]),
        ("over 30", [4, 5]),
    ]
    assert buckets[0].mean_length == pytest.approx(13 / 3)


def test_rare_words_are_words_and_not_subwords(dictionary):
    """Both subwords of house are frequent, the word is not."""
    line = dictionary.encode_line("the hou@@ se sees play@@ se", add_if_not_exist=False).tolist()
    words = words_of(dictionary, line, "subword_nmt")
    assert [len(word) for word in words] == [1, 2, 1, 2]
    the, house, sees, _ = words
    seen = Counter({the: 100, house: 6, sees: 5})
    assert rare_word_counts([words, [the, house], []], seen) == [2, 0, 0]
    buckets = by_rare_words([2, 0, 0, 7, 3], [4, 2, 0, 9, 9])
    assert [(b.name, b.numbers) for b in buckets] == [("none", [1, 2]), ("2", [0]), ("3 or more", [3, 4])]


@pytest.mark.parametrize("size", [2, 3, 10, 101])
def test_a_derangement_leaves_nothing_in_its_place(size):
    for seed in range(20):
        order = derangement(size, seed)
        assert sorted(order.tolist()) == list(range(size))
        assert not order.eq(torch.arange(size)).any()
    assert size == 2 or any(not torch.equal(derangement(size, 0), derangement(size, seed)) for seed in range(1, 9))
    assert torch.equal(derangement(size, 3), derangement(size, 3))


@pytest.mark.parametrize(
    ("better", "said"), [(-1, "fused uses what BERT says: -2.00"), (0, "fused is not seen to use"), (1, "fused is not")]
)
def test_what_is_said_of_bert(better, said):
    on, shuffled = Score(30.0, 30.0, 1.0), Score(28.0, 28.0, 1.0, 0.5, better)
    verdict = bert_verdict("fused", {"on": {"BLEU": on}, "shuffled": {"BLEU": shuffled}})
    assert verdict is not None
    assert verdict.startswith(said)
    assert verdict.endswith(": -2.00 BLEU (30.00 to 28.00, p = 0.500) where BERT reads another sentence.")
    assert bert_verdict("fused", {"on": {"BLEU": on}}) is None
