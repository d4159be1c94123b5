"""sacreBLEU's scores, and tests of whether a difference between two systems may be chance."""

from dataclasses import dataclass
from functools import lru_cache
from statistics import mean, stdev
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from sacrebleu.metrics import base
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, estimate_ci

from bert_fused_plugin.reports.words import bleu_tokenizer

SIGNIFICANT = 0.05
DEFAULT_SAMPLES = 1000
_SEED = 12345  # that of sacreBLEU
_TINY = 1e-12
TOKENIZERS = tuple(BLEU.TOKENIZERS)
SACREBLEU = ("BLEU", "chrF", "TER")
FEWEST_SAMPLES = 20  # with fewer, the smallest possible p, 1 / (samples + 1), is not below SIGNIFICANT
_FEW_SPACES = 0.1  # share of spaces among characters; a segmented text has 0.2 or more
_UNSPACED = (
    "{language} is written without spaces between words. The signatures show how BLEU splits the text. TER takes each "
    "Chinese character for a word, and in other scripts all that stands between two spaces, so it says little about "
    "such scripts; go by BLEU and chrF."
)


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
    p_seeds: Optional[List[float]] = None  # of each seed against that of the baseline, by approximate randomisation
    better: int = 0  # the sign of a significant difference by *p_holm*: 1 for better, -1 for worse
    lower_is_better: bool = False


Scores = Dict[str, Score]  # by metric
Systems = Sequence[Tuple[str, Sequence[Sequence[Any]]]]  # the name, and the texts of each seed, or numbers


@dataclass(frozen=True)
class GivenScores:
    """The scores of the sentences by another program; that of a system is their mean.

    It has what sacreBLEU's tests need of a metric; its texts are numbers.
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

    def _aggregate_and_compute(self, statistics: Any) -> base.Score:
        return self._compute_score_from_stats(np.sum(statistics, axis=0))

    def _compute_score_from_stats(self, sums: Any) -> base.Score:
        return base.Score(self.metric, float(sums[0] / sums[1]))


class Scorer:
    """Scores texts against one set of references.

    Args:
        references: one text for each sentence.
        tokenised: whether the texts are tokenised already, so that BLEU only splits them at spaces.
        samples: number of bootstrap resamples, and of trials of the test; with less than `FEWEST_SAMPLES`, no
            difference is significant.
        language: language of the texts.  One that is written without spaces, such as ``zh``, has its own tokeniser,
            unless the texts are tokenised and have spaces.
        tokenize: name of sacreBLEU's tokeniser; None chooses by language and texts.
    """

    def __init__(
        self,
        references: Sequence[str],
        tokenised: bool,
        samples: int = DEFAULT_SAMPLES,
        language: str = "",
        tokenize: Optional[str] = None,
    ) -> None:
        self.references = list(references)
        self.samples = samples
        self.remarks: List[str] = []  # what the reader of the scores must know about them
        # sacreBLEU would repeat its warning about text that looks tokenised for each score; the page has one remark
        self._bleu: Dict[str, Any] = {"force": True, **({"tokenize": "none"} if tokenised else {})}
        ter: Dict[str, Any] = {}
        by_characters, text = bleu_tokenizer(language), "".join(self.references)
        if by_characters is not None and (not tokenised or text.count(" ") < _FEW_SPACES * len(text)):
            self._bleu["tokenize"], ter = by_characters, {"normalized": True, "asian_support": True}
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

    def compare(self, systems: Systems, given: Sequence[GivenScores] = ()) -> Tuple[Dict[str, str], Dict[str, Scores]]:
        """Return the signature of each metric, and the scores of each of *systems*; the first is the baseline."""
        signatures = {}
        result: Dict[str, Scores] = {name: {} for name, _ in systems}
        tests = [(name, metric, systems, name == "TER") for name, metric in self._metrics.items()]
        tests += [(each.metric, each, each.systems, each.lower_is_better) for each in given]
        for name, metric, scored, lower_is_better in tests:
            signatures[name], p_seeds = self._randomised(metric, scored)
            found = [self._resampled(metric, seeds) for _, seeds in scored]
            scores = [
                Score(
                    score=mean(seeds),
                    interval=float(estimate_ci(draws.mean(axis=0))[1]),
                    seeds=seeds,
                    deviation=stdev(seeds) if len(seeds) > 1 else None,
                )
                for seeds, draws in found
            ]
            for own, other, each in zip(scores[1:], found[1:], p_seeds):
                own.gain, own.p_seeds = own.score - scores[0].score, each
                chance = _chance(other, found[0])
                low, high = np.percentile(chance, [2.5, 97.5])
                own.gain_interval = own.gain + float(low), own.gain + float(high)
                as_large = int((abs(chance) >= abs(own.gain)).sum())
                one_seed = len(scores[0].seeds) == len(own.seeds) == 1
                own.p = each[0] if one_seed else (as_large + 1) / (self.samples + 1)
            for own, own.p_holm in zip(scores[1:], _holm([own.p for own in scores[1:]])):
                if own.p_holm < SIGNIFICANT:
                    own.better = 1 if (own.score < scores[0].score) == lower_is_better else -1
            for (system, _), score in zip(systems, scores):
                score.lower_is_better = lower_is_better
                result[system][name] = score
        return signatures, result

    def _randomised(self, metric: Any, systems: Systems) -> Tuple[str, List[List[float]]]:
        """Return the signature of a metric, and p of each seed of each system but the first, the baseline.

        The test is sacreBLEU's paired approximate randomisation.  For two systems of the same score p is 1: the test
        is made for systems that differ, and reports the smallest possible p here.
        """
        (_, base), *others = systems
        p_seeds: List[List[float]] = [[] for _ in others]
        for i in range(max([1, *(len(seeds) for _, seeds in others)])):
            chosen = [(number, seeds[i]) for number, (_, seeds) in enumerate(others) if i < len(seeds)]
            given = [("", tuple(base[i % len(base)])), *((str(number), tuple(texts)) for number, texts in chosen)]
            test = PairedTest(given, {"": metric}, None, test_type="ar", n_samples=self.samples)
            [signature], found = test()[0].values(), test()[1]
            [first, *results] = next(values for key, values in found.items() if key != "System")
            for (number, _), result in zip(chosen, results):
                p_seeds[number].append(1.0 if result.score == first.score else float(result.p_value))
        return str(signature), p_seeds

    def _resampled(self, metric: Any, seeds: Sequence[Sequence[Any]]) -> Tuple[List[float], Any]:
        """Return the score of each of *seeds* by a metric, and those of the resamples, (seeds, samples)."""
        scores, resampled = [], []
        for texts in seeds:
            statistics = np.array(metric._extract_corpus_statistics(tuple(texts), None), dtype=float)
            scores.append(float(metric._compute_score_from_stats(statistics.sum(0)).score))
            resampled.append([metric._compute_score_from_stats(row).score for row in self._resamples @ statistics])
        return scores, np.array(resampled)

    def bleu(self, texts: Sequence[str], numbers: Sequence[int]) -> Any:
        """Return sacreBLEU's BLEU of the sentences *numbers*: its ``score``, and its ``ratio`` of lengths."""
        metric = self._metrics["BLEU"]
        statistics = np.array(metric._extract_corpus_statistics(tuple(texts), None))
        return metric._compute_score_from_stats(statistics[list(numbers)].sum(0))

    def sentences(self, texts: Sequence[str]) -> List[Dict[str, float]]:
        """Return BLEU (of those orders of n-grams that the sentence is long enough for) and chrF of each sentence."""
        metrics = {"BLEU": BLEU(effective_order=True, **self._bleu), "chrF": CHRF()}
        return [
            {name: float(metric.sentence_score(text, [reference]).score) for name, metric in metrics.items()}
            for text, reference in zip(texts, self.references)
        ]


def _chance(own: Tuple[List[float], Any], base: Tuple[List[float], Any]) -> Any:
    """Return draws, (samples), of the difference between two systems that are equally good; for both see `_resampled`.

    Of systems with one seed each they are the bootstrap's.  Otherwise sentences and seeds are random effects: the
    variance is that of the mean difference, and t has the degrees of freedom of Satterthwaite (1946).  The seeds of
    both systems are taken to vary alike, so that a system with a single seed has the variance of the other one's.
    """
    sides = [draws for _, draws in (own, base)]
    chance = sides[0].mean(axis=0) - sides[1].mean(axis=0)
    free = sum(len(draws) - 1 for draws in sides)
    if free == 0:
        return chance - chance.mean()
    share = sum(1 / len(draws) for draws in sides)  # of the variance of one seed in that of the difference
    among = sum(np.var(seeds) * len(seeds) for seeds, _ in (own, base)) / free
    by_sentences = (
        sum((draws - draws.mean(axis=0)).var(axis=1).sum() for draws in sides) / free
    )  # which *among* has, too
    of_seeds = max(among * share, _TINY)
    variance = of_seeds + max(0.0, chance.var() - by_sentences * share)
    random = np.random.default_rng(_SEED)
    return np.sqrt(variance) * random.standard_t(free * (variance / of_seeds) ** 2, size=len(chance))


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
