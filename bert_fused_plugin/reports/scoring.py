"""sacreBLEU's scores, and tests of whether a difference between two systems may be chance."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from bert_fused_plugin.reports.words import bleu_tokenizer, has_few_spaces

SIGNIFICANT = 0.05
DEFAULT_SAMPLES = 1000
TOKENIZERS = tuple(BLEU.TOKENIZERS)
FEWEST_SAMPLES = 20  # with fewer, the smallest possible p, 1 / (samples + 1), is not below SIGNIFICANT
LOWER_IS_BETTER = ("TER",)
_UNSPACED = (
    "{language} is written without spaces between words. The signatures show how BLEU splits the text. TER takes each "
    "Chinese character for a word, and in other scripts all that stands between two spaces, so it says little about "
    "such scripts; go by BLEU and chrF."
)


@dataclass
class Score:
    """A score of one system on the whole test set.

    Args:
        score: score that sacreBLEU computes.
        mean: mean score of the bootstrap resamples.
        interval: half of the width of the 95 % confidence interval around *mean*.
        p: p value of the difference to the baseline; None for the baseline itself.  It is that of sacreBLEU's paired
            bootstrap test, which is one-sided in effect: about one in nine of systems that are as good as the
            baseline has p below 0.05.  The smallest possible p is 1 / (number of resamples + 1).
        better: sign of a significant difference: 1 for better, -1 for worse, 0 for no significant difference.
    """

    score: float
    mean: float
    interval: float
    p: Optional[float] = None
    better: int = 0


Scores = Dict[str, Score]  # by metric


class Scorer:
    """Scores texts against one set of references.

    Args:
        references: one text for each sentence.
        tokenised: whether the texts are tokenised already, so that BLEU only splits them at spaces.
        samples: number of bootstrap resamples; with less than `FEWEST_SAMPLES`, no difference is significant.
        language: language of the texts.  One that is written without spaces, such as ``zh``, has its own tokeniser,
            unless the texts are tokenised and have spaces.
        tokenize: name of sacreBLEU's tokeniser; None chooses by language and texts.

    Attributes:
        remarks: what the reader of the scores must know about them.
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
        self.remarks: List[str] = []
        # sacreBLEU would repeat its warning about text that looks tokenised for each score; the page has one remark
        self._bleu: Dict[str, Any] = {"force": True, **({"tokenize": "none"} if tokenised else {})}
        self._ter: Dict[str, Any] = {}
        by_characters = bleu_tokenizer(language)
        if by_characters is not None and (not tokenised or has_few_spaces(self.references)):
            self._bleu["tokenize"], self._ter = by_characters, {"normalized": True, "asian_support": True}
            self.remarks.append(_UNSPACED.format(language=language))
        if tokenize is not None:
            self._bleu["tokenize"] = tokenize

    def compare(self, systems: Sequence[Tuple[str, Sequence[str]]]) -> Tuple[Dict[str, str], Dict[str, Scores]]:
        """Return the signature of each metric, and the scores of each of *systems*; the first is the baseline.

        If two systems have the same score, p is 1: sacreBLEU's test is made for systems that differ, and reports the
        smallest possible p here.
        """
        metrics = {"BLEU": BLEU(**self._bleu), "chrF": CHRF(), "TER": TER(**self._ter)}
        signatures, found = PairedTest(
            [(name, list(texts)) for name, texts in systems],
            metrics,
            [self.references],
            test_type="bs",
            n_samples=self.samples,
        )()
        names = dict(zip(metrics, [key for key in found if key != "System"]))  # chrF is called chrF2
        result: Dict[str, Scores] = {name: {} for name, _ in systems}
        for metric, key in names.items():
            baseline = found[key][0]
            for (name, _), value in zip(systems, found[key]):
                score = Score(float(value.score), float(value.mean), float(value.ci))
                if value is not baseline:
                    score.p = 1.0 if score.score == baseline.score else float(value.p_value)
                    score.better = _better(metric, score, float(baseline.score))
                result[name][metric] = score
        return {metric: str(signatures[key]) for metric, key in names.items()}, result

    def bleu(self, texts: Sequence[str], numbers: Sequence[int]) -> float:
        """Return BLEU of the sentences *numbers*."""
        chosen = [texts[i] for i in numbers]
        return float(BLEU(**self._bleu).corpus_score(chosen, [[self.references[i] for i in numbers]]).score)

    def length(self, texts: Sequence[str]) -> float:
        """Return the number of tokens in *texts* divided by that in the references, as for BLEU's brevity penalty."""
        score = BLEU(**self._bleu).corpus_score(list(texts), [self.references])
        return score.sys_len / max(1, score.ref_len)

    def sentences(self, texts: Sequence[str]) -> List[Dict[str, float]]:
        """Return BLEU (of those orders of n-grams that the sentence is long enough for) and chrF of each sentence."""
        bleu, chrf = BLEU(effective_order=True, **self._bleu), CHRF()
        return [
            {
                "BLEU": float(bleu.sentence_score(text, [reference]).score),
                "chrF": float(chrf.sentence_score(text, [reference]).score),
            }
            for text, reference in zip(texts, self.references)
        ]


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


def _better(metric: str, score: Score, baseline: float) -> int:
    if score.p is None or score.p >= SIGNIFICANT or score.score == baseline:
        return 0
    higher = 1 if score.score > baseline else -1
    return -higher if metric in LOWER_IS_BETTER else higher
