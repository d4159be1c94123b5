"""Scores and significance."""

from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from bert_fused_lab.compare import main
from bert_fused_lab.report.comparison import Comparison
from bert_fused_lab.report.scoring import (
    FEWEST_SAMPLES,
    SIGNIFICANT,
    GivenScores,
    Sampled,
    Scorer,
    _chances,
    _holm,
    _p,
    is_unspaced,
    p_text,
    tokenizer_errors,
)
from bert_fused_lab.report.verdicts import verdict
from bert_fused_plugin.data.subwords import bleu_tokenizer
from bert_fused_plugin.errors import BertFusedError

REFERENCES = [f"the {a} {b} sees the {c} ." for a in ("big", "old") for b in "man dog".split() for c in "abcde"]
GOOD = list(REFERENCES)
BAD = [text.replace("sees the", "gives") for text in REFERENCES]


def test_a_system_that_wrote_the_same_does_not_differ():
    _, scores = Scorer(REFERENCES, tokenised=True, samples=50).compare([("base", [BAD]), ("twin", [list(BAD)])])
    assert [(score.p, score.gain, score.better) for score in scores["twin"].values()] == [(1.0, 0.0, 0)] * 3
    assert [score.p for score in scores["base"].values()] == [None] * 3
    said = verdict("twin", "base", scores)
    assert said.endswith("twin has the same BLEU (95 % interval +0.00 to +0.00, p = 1.000).")
    assert "do not differ significantly" in verdict("twin", "base", scores)


def test_a_better_and_a_worse_system():
    scorer = Scorer(REFERENCES, tokenised=True, samples=200)
    _, scores = scorer.compare([("base", [BAD]), ("good", [GOOD])])
    assert {metric: score.better for metric, score in scores["good"].items()} == {"BLEU": 1, "chrF": 1, "TER": 1}
    assert scores["good"]["BLEU"].p < 0.05
    assert scores["good"]["TER"].score == 0 < scores["base"]["TER"].score
    assert verdict("good", "base", scores).startswith("good is better than base on this test set: good gains ")
    _, scores = scorer.compare([("base", [GOOD]), ("bad", [BAD])])
    assert {score.better for score in scores["bad"].values()} == {-1}
    assert verdict("bad", "base", scores).startswith("bad is worse than base on this test set: bad loses ")
    assert scores["bad"]["BLEU"].gain == pytest.approx(scores["bad"]["BLEU"].score - 100)


def test_the_fewest_resamples_can_show_a_difference_in_five_comparisons_and_one_less_cannot():
    systems = [("base", [BAD]), *((name, [GOOD]) for name in "abcde")]
    for samples, better in ((FEWEST_SAMPLES, 1), (FEWEST_SAMPLES - 1, 0)):
        _, scores = Scorer(REFERENCES, tokenised=True, samples=samples).compare(systems)
        assert scores["e"]["BLEU"].p_holm == pytest.approx(5 / (samples + 1))
        assert scores["e"]["BLEU"].better == better


def noisy(share, seed):
    """Return the references with so many of their words replaced."""
    random = Random(seed)
    return [" ".join("x" if random.random() < share else word for word in line.split()) for line in REFERENCES]


def test_p_is_that_of_sacrebleus_approximate_randomisation():
    systems = [("base", noisy(0.3, 1)), ("a", noisy(0.25, 2)), ("b", noisy(0.5, 3))]
    _, scores = Scorer(REFERENCES, tokenised=False, samples=300).compare([(name, [texts]) for name, texts in systems])
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF()}
    _, expected = PairedTest(systems, metrics, [REFERENCES], test_type="ar", n_samples=300)()
    for metric, key in (("BLEU", "BLEU"), ("chrF", "chrF2")):
        found = [scores[name][metric] for name, _ in systems]
        assert [own.p for own in found[1:]] == [each.p_value for each in expected[key][1:]]
        assert [own.score for own in found] == pytest.approx([each.score for each in expected[key]])
        assert [own.p_holm for own in found[1:]] == _holm([own.p for own in found[1:]])
        assert 0.1 < found[1].p <= found[1].p_holm
        assert found[1].gain_interval[0] < 0 < found[1].gain_interval[1]


def test_intervals_are_of_95_percent():
    base, own = np.random.default_rng(0).normal(0, 1, (2, 400))
    given = GivenScores("COMET", "file", False, [("base", [base.tolist()]), ("own", [own.tolist()])])
    texts = [["a"] * 400]
    _, scores = Scorer(texts[0], False, 2000).compare([("base", texts), ("own", texts)], [given])
    found = scores["own"]["COMET"]
    assert np.ptp(found.gain_interval) == pytest.approx(2 * 1.96 * (own - base).std() / 20, rel=0.08)
    assert found.interval == pytest.approx(1.96 * own.std() / 20, rel=0.08)


def test_a_group_of_sentences_has_a_score_of_its_own():
    texts = [BAD, noisy(0.3, 1)]
    own = SimpleNamespace(scorer=Scorer(REFERENCES, False, 20), texts={"x": texts})
    found = Comparison._bucket(own, "1-10", [8, 8], [0, 5])["BLEU"]["x"]
    group = [[REFERENCES[0], REFERENCES[5]]]
    expected = [sacrebleu.corpus_bleu([seed[0], seed[5]], group, force=True).score for seed in texts]
    assert found == pytest.approx(sum(expected) / 2)


def test_holms_correction():
    assert _holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert _holm([0.4, 0.6]) == pytest.approx([0.8, 0.8])
    assert _holm([0.7, 0.9, 0.8]) == [1.0] * 3
    assert _holm([]) == []


def test_a_difference_that_is_significant_alone_need_not_be_one_of_several():
    systems = [("base", [noisy(0.4, 1)]), ("good", [noisy(0.2, 2)])]
    alone = Scorer(REFERENCES, False, 200).compare(systems)[1]["good"]["BLEU"]
    chance = [(name, [noisy(0.4, seed)]) for seed, name in enumerate("abcdefghijkl", 5)]
    among = Scorer(REFERENCES, False, 200).compare([*systems, *chance])[1]["good"]["BLEU"]
    assert alone.p == among.p == alone.p_holm < SIGNIFICANT < among.p_holm
    assert (alone.better, among.better) == (1, 0)


@pytest.mark.parametrize(("p", "text"), [(1.0, "1.000"), (0.0312, "0.031"), (1 / 1001, "0.001"), (1 / 10001, "0.0001")])
def test_no_p_is_zero(p, text):
    assert p_text(p) == text


def test_seeds_count_as_sentences_do():
    """Where the seeds of a system differ much, its best one alone would be significant."""
    base = [noisy(0.4, seed) for seed in (1, 2, 3)]
    good, bad = noisy(0.05, 4), noisy(0.6, 5)
    scorer = Scorer(REFERENCES, False, 200)
    alone, apart, alike, twice = (
        scorer.compare([("base", base), ("other", seeds)])[1]["other"]["BLEU"]
        for seeds in ([good], [good, bad], [good, noisy(0.05, 6), noisy(0.05, 7)], base)
    )
    assert alone.better == alike.better == 1
    assert apart.p > SIGNIFICANT
    assert apart.better == 0
    assert apart.gain_interval[0] < 0 < apart.gain_interval[1]
    expected = [sacrebleu.corpus_bleu(texts, [REFERENCES], force=True).score for texts in (good, bad)]
    assert apart.seeds == pytest.approx(expected)
    assert apart.score == pytest.approx(sum(expected) / 2)
    assert apart.deviation == pytest.approx(abs(expected[0] - expected[1]) / 2**0.5)
    assert alone.deviation is None
    one, two = (
        scorer.compare([("base", base[:1]), ("other", seeds)])[1]["other"]["BLEU"] for seeds in ([good], [good, bad])
    )
    assert two.p_seeds[0] == one.p < SIGNIFICANT
    assert (twice.p, twice.p_seeds) == (1.0, [1.0] * 3)
    assert scorer.compare([("base", base), ("other", [good, bad])])[1]["other"]["BLEU"].p_seeds == []  # of 3 and 2


def share_of_differences(numbers, shared, own):
    """Return how many of 200 pairs of equally good systems, each with its number of seeds, have p below 0.05.

    Their scores deviate by *shared*, which is common to a seed of both systems, and by *own*.
    """
    random, found = np.random.default_rng(1), 0
    resamples = random.multinomial(100, np.full(100, 0.01), 200) / 100
    for _ in range(200):
        luck = random.normal(0, shared, (max(numbers), 1))
        seeds = [random.normal(luck[:n] + random.normal(0, own, (n, 1)), 1, (n, 100)) for n in numbers]
        seeds = [each + random.normal(0, 1, 100) for each in seeds]  # how well a system does on each sentence
        systems = ([Sampled(seed, seed.mean(), resamples @ seed) for seed in each] for each in seeds)
        gain = seeds[0].mean() - seeds[1].mean()
        found += max(_p(chance, gain) for chance in _chances(*systems)) < SIGNIFICANT
    return found / 200


@pytest.mark.parametrize("numbers", [(3, 3), (1, 3), (3, 1)])
@pytest.mark.parametrize("own", [0, 0.3])
def test_equal_systems_with_seeds_are_rarely_said_to_differ(numbers, own):
    assert share_of_differences(numbers, 0, own) < 0.09


def test_two_seeds_that_agree_by_chance_prove_little():
    draws = np.random.default_rng(1).normal(0, 0.2, 1000)
    own, base = ([Sampled(None, score, score + draws) for score in scores] for scores in ((22.2, 22.4), (20, 20)))
    by_sentences, by_seeds = (_p(chance, 2.3) for chance in _chances(own, base))
    assert by_sentences < 0.002
    assert by_seeds == pytest.approx(0.0277, abs=0.002)  # Student's t is 23, with one degree of freedom


def test_seeds_in_another_order_are_no_difference():
    scorer = Scorer(REFERENCES, False, 200)
    for number in range(1, 6):
        one, two = noisy(0.2, number), noisy(0.2, number + 5)
        score = scorer.compare([("base", [one, two]), ("other", [two, one])])[1]["other"]["BLEU"]
        assert score.p == 1.0
        assert -1000 < score.gain_interval[0] <= 0 <= score.gain_interval[1] < 1000


def test_the_luck_that_a_seed_of_both_systems_has_in_common_hides_no_difference():
    assert 0.01 < share_of_differences((3, 3), shared=0.5, own=0.3) < 0.09


def test_sacrebleu_does_not_repeat_its_warning_of_tokenised_text(caplog):
    references = REFERENCES * 6  # it warns of 100 lines
    Scorer(references, tokenised=False, samples=100).compare([("base", [BAD * 6]), ("good", [references])])
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


CHINESE = [f"那{a}{b}看见了那{c}。" for a in "个只" for b in ("男人", "老狗") for c in "猫马牛羊鸟"]
OTHER_CHINESE = [text.replace("看见", "给").replace("个", "些") for text in CHINESE]
THAI = [f"ชาย{a}เห็น{b}ใหญ่" for a in ("แก่", "หนุ่ม") for b in ("แมว", "ม้า", "วัว", "นก", "หมา")]
OTHER_THAI = [text.replace("เห็น", "ให้") for text in THAI]


@pytest.mark.parametrize(
    ("languages", "tokenizer"),
    [
        ("zh cn chi zh_CN zh-Hans zho_Hant ZH_TW cmn yue_Hant", "zh"),
        ("ja ja_XX jpn_Jpan JP tib th tha_Thai lo lao_Laoo km_KH khm_Khmr my_MM mya_Mymr bod_Tibt", "char"),
        ("de en ko kor_Hang ko_KR fa vi jv tl ms_MY zho_Latn ja-Latn unknown zhx", None),
    ],
)
def test_the_tokeniser_of_a_language(languages, tokenizer):
    assert {language: bleu_tokenizer(language) for language in languages.split()} == dict.fromkeys(
        languages.split(), tokenizer
    )
    assert bleu_tokenizer("") is None


@pytest.mark.parametrize(
    ("language", "references", "texts", "tokenizer"),
    [("zh_CN", CHINESE, OTHER_CHINESE, "zh"), ("tha_Thai", THAI, OTHER_THAI, "char")],
)
def test_text_without_spaces_is_split(language, references, texts, tokenizer):
    assert is_unspaced(references)
    assert not is_unspaced(REFERENCES)
    scorer = Scorer(references, False, 20, language, bleu_tokenizer(language))
    signatures, scores = scorer.compare([("base", [texts]), ("good", [references])])
    assert f"tok:{tokenizer}" in signatures["BLEU"]
    assert "norm:yes" in signatures["TER"]
    assert "asian:yes" in signatures["TER"]
    bleu = sacrebleu.corpus_bleu(texts, [references], tokenize=tokenizer).score
    assert scores["base"]["BLEU"].score == pytest.approx(bleu)
    assert scorer.bleu(texts, range(len(texts))).score == pytest.approx(bleu)
    assert 10 < bleu < 90
    assert all(sentence["BLEU"] > 10 for sentence in scorer.sentences(texts))
    assert scorer.bleu(["".join(references)[:-30], *[""] * (len(references) - 1)], range(len(references))).ratio > 0.8
    assert tokenizer == "char" or 5 < scores["base"]["TER"].score < 50
    [remark] = scorer.remarks
    assert remark.startswith(f"{language} is written without spaces between words.")


def test_scores_and_signatures_are_those_of_sacrebleu():
    for tokenised, tokenizer in ((False, "13a"), (True, "none")):
        scorer = Scorer(REFERENCES, tokenised, 20, "de")
        assert scorer.remarks == []
        signatures, scores = scorer.compare([("base", [BAD]), ("good", [GOOD])])
        assert f"|ar:20|seed:12345|case:mixed|eff:no|tok:{tokenizer}|" in signatures["BLEU"]
        assert "norm:no|punct:yes|asian:no" in signatures["TER"]
        bleu = sacrebleu.corpus_bleu(BAD, [REFERENCES], tokenize=tokenizer, force=True)
        for metric, expected in (
            ("BLEU", bleu),
            ("chrF", sacrebleu.corpus_chrf(BAD, [REFERENCES])),
            ("TER", sacrebleu.corpus_ter(BAD, [REFERENCES])),
        ):
            assert scores["base"][metric].score == pytest.approx(expected.score)


def test_segmented_text_stays_as_it_is_and_a_tokeniser_that_is_named_is_used():
    references, texts = (
        [" ".join(text[i : i + 2] for i in range(0, len(text), 2)) for text in lines]
        for lines in (CHINESE, OTHER_CHINESE)
    )
    signatures, _ = Scorer(references, True, 20, "zh", "zh").compare([("base", [texts])])
    assert "tok:none" in signatures["BLEU"]
    assert "asian:no" in signatures["TER"]
    signatures, _ = Scorer(references, True, 20, "zh", "zh", "intl").compare([("base", [texts])])
    assert "tok:intl" in signatures["BLEU"]


def test_a_tokeniser_that_cannot_be_had_is_an_error_at_the_start(monkeypatch):
    assert [tokenizer_errors(name) for name in (None, "none", "zh", "13a", "intl", "char")] == [[]] * 6

    def fail(*_, **__):
        raise RuntimeError("Please install them.\n\n pip install x")

    monkeypatch.setattr(BLEU, "__init__", fail)
    said = "--tokenize ja-mecab cannot be used (Please install them. pip install x)"
    assert tokenizer_errors("ja-mecab") == [f"{said}; do what sacreBLEU says, or leave it out"]
    with pytest.raises(BertFusedError, match="--tokenize ja-mecab cannot be used"):
        main(["data", "--baseline", "a=b", "--output", "c", "--tokenize", "ja-mecab"])


def test_sums_in_another_order_are_no_smaller_differences():
    """Of 500 sentences five differ, all in one direction, so a difference as large has the probability 1/16."""
    random, scorer = np.random.default_rng(0), Scorer(["a"] * 500, False)
    for _ in range(5):
        base = random.random(500).round(4)
        own = base.copy()
        own[:5] += (0.001 * random.integers(10, 90, 5)).round(4)
        systems = [("base", [base.tolist()]), ("own", [own.tolist()])]
        given = GivenScores("COMET", "file", False, systems)
        scores = scorer.compare([("base", [["a"] * 500]), ("own", [["a"] * 500])], [given])[1]
        assert scores["own"]["COMET"].p > 0.05
