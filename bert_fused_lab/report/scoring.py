"""sacreBLEU's scores, and tests of whether a difference between two systems may be chance."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from statistics import mean, stdev
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from sacrebleu.metrics import base
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import estimate_ci

SIGNIFICANT = 0.05
DEFAULT_SAMPLES = 1000
_SEED = 12345  # that of sacreBLEU
TOKENIZERS = tuple(BLEU.TOKENIZERS)
SACREBLEU = ("BLEU", "chrF", "TER")
FEWEST_SAMPLES = 100  # then the smallest possible p, 1 / (samples + 1), is below SIGNIFICANT in up to 5 comparisons
_FEW_SPACES = 0.1  # share of spaces among characters; a segmented text has 0.2 or more
_UNSPACED = (
    "{language} is written without spaces between words. TER, which counts words, says little about it: go by chrF and "
    "by BLEU, whose signature shows how it splits the text."
)


def is_unspaced(lines: Sequence[str]) -> bool:
    """Return whether *lines*, in a language that is written without spaces between words, have none either."""
    text = "".join(lines)
    return text.count(" ") < _FEW_SPACES * len(text)


@dataclass
class Score:
    """A score of one system on the whole test set, by sacreBLEU: the mean over its seeds.

    *gain* is the difference to the baseline, and *p*, which is two-sided, says how probable one as large is by chance.
    The smallest possible p is 1 / (number of trials + 1).
    """

    score: float
    interval: float  # half of the width of the 95 % interval of the bootstrap
    seeds: List[float]  # the score of each
    deviation: Optional[float] = None  # the standard deviation of the seeds, where there are several
    gain: float = 0.0
    gain_interval: Tuple[float, float] = (0.0, 0.0)  # of 95 %
    p: Optional[float] = None  # None for the baseline itself
    p_holm: Optional[float] = None  # corrected by Holm's method for the number of systems
    p_seeds: Optional[List[float]] = None  # of each seed against the baseline's; empty if their numbers differ
    better: int = 0  # the sign of a significant difference by *p_holm*: 1 for better, -1 for worse
    lower_is_better: bool = False


def p_text(p: Any) -> str:
    """Return *p* with three decimals, or with its first digit where these would be zeros."""
    return f"{p:.3f}" if p >= 0.0005 else f"{p:.1g}"


Scores = Dict[str, Score]  # by metric
Systems = Sequence[Tuple[str, Sequence[Sequence[Any]]]]  # the name, and the texts of each seed, or numbers


@dataclass(frozen=True)
class GivenScores:
    """The scores of the sentences by another program; that of a system is their mean.

    It is used as a metric of sacreBLEU, with numbers for texts.
    """

    metric: str
    file: str  # for the signature
    lower_is_better: bool
    systems: Systems  # the scores of each seed in the place of its texts

    def get_signature(self) -> base.Signature:  # noqa: D102
        signature = base.Signature({"num_refs": None})
        signature.update("scores", f"mean of {self.file}")
        return signature

    def _extract_corpus_statistics(self, scores: Sequence[float], references: None) -> List[Tuple[float, float]]:
        return [(score, 1.0) for score in scores]

    def _compute_score_from_stats(self, sums: Any) -> base.Score:
        return base.Score(self.metric, float(sums[0] / sums[1]))


class Scorer:
    """Scores texts against one set of references."""

    def __init__(
        self,
        references: Sequence[str],
        tokenised: bool,  # BLEU then only splits the texts at spaces
        samples: int = DEFAULT_SAMPLES,  # resamples, and trials of the test; at least FEWEST_SAMPLES
        language: str = "",  # of the texts
        by_language: Optional[str] = None,  # sacreBLEU's tokeniser for one without spaces, unless they are tokenised
        tokenize: Optional[str] = None,  # sacreBLEU's tokeniser; None chooses by language and texts
    ) -> None:
        self.references = list(references)
        self.samples = samples
        self.remarks: List[str] = []  # what the reader of the scores must know about them
        # sacreBLEU would repeat its warning about text that looks tokenised for each score; the page has one remark
        self._bleu: Dict[str, Any] = {"force": True, **({"tokenize": "none"} if tokenised else {})}
        ter: Dict[str, Any] = {}
        if by_language is not None and not tokenised:
            self._bleu["tokenize"], ter = by_language, {"normalized": True, "asian_support": True}
            self.remarks.append(_UNSPACED.format(language=language))
        if tokenize is not None:
            self._bleu["tokenize"] = tokenize
        known: Dict[str, Any] = {"references": [self.references]}
        self._metrics: Dict[str, Any] = {
            "BLEU": BLEU(**self._bleu, **known),
            "chrF": CHRF(**known),
            "TER": TER(**ter, **known),
        }
        for metric in self._metrics.values():  # to find them takes long, and all tests of a text need them
            metric._extract_corpus_statistics = lru_cache(maxsize=None)(metric._extract_corpus_statistics)
        size, random = len(self.references), np.random.default_rng(_SEED)
        # how often each resample has each sentence
        self._resamples = random.multinomial(size, np.full(size, 1 / size), samples).astype(float)

    def compare(
        self, systems: Systems, given_scores: Sequence[GivenScores] = ()
    ) -> Tuple[Dict[str, str], Dict[str, Scores]]:
        """Return the signature of each metric, and the scores of each of *systems*; the first is the baseline."""
        signatures = {}
        result: Dict[str, Scores] = {name: {} for name, _ in systems}
        tests = [(name, metric, systems, name == "TER") for name, metric in self._metrics.items()]
        tests += [(scores.metric, scores, scores.systems, scores.lower_is_better) for scores in given_scores]
        for name, metric, scored, lower_is_better in tests:
            signature = metric.get_signature()
            signature.update("ar", self.samples)
            signature.update("seed", _SEED)
            signatures[name] = str(signature)
            base, *others = ([self._sampled(metric, texts) for texts in seeds] for _, seeds in scored)
            scores = [self._score(base), *(self._score(other) for other in others)]
            for score, other in zip(scores[1:], others):
                score.gain = score.score - scores[0].score
                chances = _chances(other, base)
                lows, highs = np.percentile(chances, [2.5, 97.5], axis=1)
                score.gain_interval = score.gain + float(min(lows)), score.gain + float(max(highs))
                pairs = zip(other, cycle(base)) if len(base) in (1, len(other)) else ()
                score.p_seeds = [_p(self._randomised(metric, *pair), pair[0].score - pair[1].score) for pair in pairs]
                single = len(other) == len(base) == 1
                score.p = score.p_seeds[0] if single else max(_p(chance, score.gain) for chance in chances)
            for score, corrected in zip(scores[1:], _holm([score.p for score in scores[1:]])):
                score.p_holm = corrected
                if corrected < SIGNIFICANT:
                    score.better = 1 if (score.score < scores[0].score) == lower_is_better else -1
            for (system, _), score in zip(systems, scores):
                score.lower_is_better = lower_is_better
                result[system][name] = score
        return signatures, result

    def _sampled(self, metric: Any, texts: Sequence[Any]) -> "Sampled":
        statistics = _statistics(metric, texts)
        score, *draws = _scores(metric, np.vstack([statistics.sum(0), self._resamples @ statistics]))
        return Sampled(statistics, float(score), np.array(draws))

    @staticmethod
    def _score(seeds: Sequence["Sampled"]) -> Score:
        scores, draws = [seed.score for seed in seeds], np.mean([seed.draws for seed in seeds], axis=0)
        return Score(mean(scores), float(estimate_ci(draws)[1]), scores, stdev(scores) if len(scores) > 1 else None)

    def _randomised(self, metric: Any, other: "Sampled", base: "Sampled") -> Any:
        """Return differences by chance, (samples), those of sacreBLEU's paired approximate randomisation.

        Each trial exchanges sentences between the two systems at random.
        """
        size = self.samples, len(other.statistics)
        exchanged = np.random.default_rng(_SEED).integers(2, size=size, dtype=bool)
        moved = exchanged @ (base.statistics - other.statistics)
        first, second = other.statistics.sum(0) + moved, base.statistics.sum(0) - moved
        return _scores(metric, first) - _scores(metric, second)

    def bleu(self, texts: Sequence[str], numbers: Sequence[int]) -> Any:
        """Return sacreBLEU's BLEU of the sentences *numbers*: its ``score``, and its ``ratio`` of lengths."""
        metric = self._metrics["BLEU"]
        return metric._compute_score_from_stats(_statistics(metric, texts)[list(numbers)].sum(0))

    def sentences(self, texts: Sequence[str]) -> List[Dict[str, float]]:
        """Return BLEU (of those orders of n-grams that the sentence is long enough for) and chrF of each sentence."""
        metrics = {"BLEU": BLEU(effective_order=True, **self._bleu), "chrF": CHRF()}
        return [
            {name: float(metric.sentence_score(text, [reference]).score) for name, metric in metrics.items()}
            for text, reference in zip(texts, self.references)
        ]


class Sampled(NamedTuple):
    """The translations of one seed, to a metric: statistics of its sentences, (N, ...), and scores of resamples."""

    statistics: Any
    score: float
    draws: Any


def _statistics(metric: Any, texts: Sequence[Any]) -> Any:
    return np.array(metric._extract_corpus_statistics(tuple(texts), None), dtype=float)


def _scores(metric: Any, sums: Any) -> Any:
    """Return the score for each row of statistics that are summed over a test set."""
    return np.array([metric._compute_score_from_stats(row).score for row in sums])


def _p(chance: Any, gain: float) -> float:
    """Return how probable a difference as large as *gain* is, by differences that are due to *chance*."""
    at_least = abs(gain) * (1 - 1e-9)  # sums of the same numbers in another order may be a little smaller
    return float((abs(chance) >= at_least).sum() + 1) / (len(chance) + 1)


def _chances(other: Sequence[Sampled], base: Sequence[Sampled]) -> List[Any]:
    """Return differences, (samples), by chance between two systems, each with its seeds, that are equally good.

    The first are due to the choice of the sentences, by the bootstrap, and to the variation between training runs, with
    the seeds' variance.  The second are due to this variation, by Student's t, where a system has several seeds.  A
    difference must exceed both, because a few seeds may agree by chance.  Equal numbers of seeds are compared seed by
    seed, because the recipes begin both systems of a seed from one transformer.  Otherwise, the seeds of both systems
    are taken to vary alike.
    """
    chance = np.mean([seed.draws for seed in other], axis=0) - np.mean([seed.draws for seed in base], axis=0)
    by_sentences = chance - chance.mean()
    scores = [np.array([seed.score for seed in seeds]) for seeds in (other, base)]
    if len(other) == len(base):
        scores = [scores[0] - scores[1]]
    free = sum(len(side) - 1 for side in scores)
    if free == 0:
        return [by_sentences]
    variance = sum(side.var() * len(side) for side in scores) / free * sum(1 / len(side) for side in scores)
    random, quantiles = np.random.default_rng(_SEED), (np.arange(len(chance)) + 0.5) / len(chance)
    by_both = by_sentences + np.sqrt(variance) * random.standard_normal(len(chance))
    drawn = random.standard_t(free, size=50 * len(chance))
    return [by_both, np.sqrt(variance) * np.quantile([drawn, -drawn], quantiles)]  # nearly those of t


def _holm(ps: Sequence[Any]) -> List[float]:
    """Return Holm's correction of *ps*, those of several tests."""
    order = np.argsort(ps, kind="stable")
    corrected = np.maximum.accumulate(np.array(ps, dtype=float)[order] * np.arange(len(ps), 0, -1)).clip(max=1)
    return [float(p) for p in corrected[np.argsort(order)]]


def tokenizer_errors(name: Optional[str]) -> List[str]:
    """Return a sentence if sacreBLEU's tokeniser *name* cannot be used here; None is no tokeniser.

    Some need another package, or a file from the network.
    """
    try:
        BLEU(tokenize=name)
    except (Exception, SystemExit) as error:  # a download that fails may end in either
        reason = " ".join(str(error).split())
        return [f"--tokenize {name} cannot be used ({reason}); do what sacreBLEU says, or leave it out"]
    return []
