"""sacreBLEU's scores, and tests of whether a difference between two systems may be chance."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from bert_fused_plugin.reports.words import bleu_tokenizer

SIGNIFICANT = 0.05
DEFAULT_SAMPLES = 1000
TOKENIZERS = tuple(BLEU.TOKENIZERS)
FEWEST_SAMPLES = 20  # with fewer, the smallest possible p, 1 / (samples + 1), is not below SIGNIFICANT
_FEW_SPACES = 0.1  # share of spaces among characters; a segmented text has 0.2 or more
_UNSPACED = (
    "{language} is written without spaces between words. The signatures show how BLEU splits the text. TER takes each "
    "Chinese character for a word, and in other scripts all that stands between two spaces, so it says little about "
    "such scripts; go by BLEU and chrF."
)


@dataclass
class Score:
    """A score of one system on the whole test set, by sacreBLEU.

    Its paired bootstrap test is one-sided in effect: about one in nine of systems that are as good as the baseline has
    p below 0.05.  The smallest possible p is 1 / (number of resamples + 1).
    """

    score: float
    mean: float  # of the bootstrap resamples
    interval: float  # half of the width of the 95 % confidence interval around *mean*
    p: Optional[float] = None  # of the difference to the baseline; None for the baseline itself
    better: int = 0  # the sign of a significant difference: 1 for better, -1 for worse


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
        self._ter: Dict[str, Any] = {}
        by_characters, text = bleu_tokenizer(language), "".join(self.references)
        if by_characters is not None and (not tokenised or text.count(" ") < _FEW_SPACES * len(text)):
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
        given = [(name, list(texts)) for name, texts in systems]
        signatures, found = PairedTest(given, metrics, [self.references], test_type="bs", n_samples=self.samples)()
        keys = dict(zip(metrics, [key for key in found if key != "System"]))  # chrF is called chrF2
        result: Dict[str, Scores] = {name: {} for name, _ in systems}
        for metric, key in keys.items():
            baseline = float(found[key][0].score)
            for number, ((name, _), value) in enumerate(zip(systems, found[key])):
                score = Score(float(value.score), float(value.mean), float(value.ci))
                if number > 0:
                    score.p = 1.0 if score.score == baseline else float(value.p_value)
                    if score.p < SIGNIFICANT:
                        score.better = 1 if (score.score > baseline) == (metric != "TER") else -1  # a low TER is good
                result[name][metric] = score
        return {metric: str(signatures[key]) for metric, key in keys.items()}, result

    def bleu(self, texts: Sequence[str], numbers: Sequence[int]) -> Any:
        """Return sacreBLEU's BLEU of the sentences *numbers*: its ``score``, and its ``ratio`` of lengths."""
        references = [self.references[i] for i in numbers]
        return BLEU(**self._bleu).corpus_score([texts[i] for i in numbers], [references])

    def sentences(self, texts: Sequence[str]) -> List[Dict[str, float]]:
        """Return BLEU (of those orders of n-grams that the sentence is long enough for) and chrF of each sentence."""
        metrics = {"BLEU": BLEU(effective_order=True, **self._bleu), "chrF": CHRF()}
        return [
            {name: float(metric.sentence_score(text, [reference]).score) for name, metric in metrics.items()}
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
