"""The texts and scores that a user gives, and whether they fit the references."""

import math
import re
from math import isfinite
from pathlib import Path
from statistics import mean
from typing import List, Mapping, Optional, Sequence

from bert_fused_lab.evidence.files import EvidenceError, lines_for
from bert_fused_lab.report.scoring import GivenScores
from bert_fused_lab.report.systems import EvaluationSet, System

_NO_TEXT = re.compile(r"[SHTDP]-\d+\t|.*(@@( |$)|▁)")  # the beginning of a line with columns, or marks, of fairseq
_MARKS = tuple(".?!।۔؟。！？．։።")


def given_lines(flag: str, template: Path, test_set: EvaluationSet, is_only: bool) -> List[str]:
    """Return the lines of the file of *flag*, one for each sentence of *test_set*; see `lines_for`."""
    return lines_for(flag, template, test_set.name, is_only, test_set.facts.data, len(test_set.references))


def read_scores(
    flag: str, metric: str, template: Path, test_set: EvaluationSet, is_only: bool, seeds: Mapping[str, int]
) -> GivenScores:
    """Return the scores of *metric* for all systems, of which *seeds* has the number of seeds.

    *template* has ``{system}`` and ``{seed}`` in the place of what the files' names differ in.  For the other arguments
    see `given_lines`.

    Raises:
        EvidenceError: two systems or seeds have one file, or a line is no number.
    """
    paths = {
        name: [Path(str(template).replace("{system}", name).replace("{seed}", str(i + 1))) for i in range(count)]
        for name, count in seeds.items()
    }
    if len({path for files in paths.values() for path in files}) < sum(seeds.values()):
        rule = f"must be a file for each of {', '.join(seeds)}, and for each seed"
        raise EvidenceError(
            f"{flag} {metric}={template} {rule}; write {{system}} and {{seed}} where their names differ"
        )

    def numbers(path: Path) -> List[float]:
        lines = given_lines(f"{flag} {metric}=", path, test_set, is_only)
        try:
            scores = [float(line) for line in lines]
            if not all(map(isfinite, scores)):
                raise ValueError("a score is infinite or no number")
            return scores
        except ValueError as error:
            raise EvidenceError(f"{flag} {metric}={path} must have one number a line ({error})") from error

    systems = [(name, [numbers(path) for path in files]) for name, files in paths.items()]
    return GivenScores(metric, str(template), flag == "--error-scores", systems)


def form_error(name: str, lines: Sequence[str], references: Sequence[str]) -> Optional[str]:
    """Return a sentence if the translations *name* are not plain text, or not in the form of the *references*."""
    wrong = [line for line in lines if _NO_TEXT.match(line)]
    if len(wrong) > len(lines) / 20:
        has = f"has subword marks or columns of fairseq-generate in {len(wrong):,} of {len(lines):,} lines"
        return f"{name} {has}, such as {wrong[0]!r}; give translations alone, joined to words"
    apart = marks_apart(lines, math.nan) - marks_apart(references, math.nan)
    if not abs(apart) >= 0.5:  # nor if a share is unknown
        return None
    form, other = ("tokenised", "detokenised") if apart > 0 else ("detokenised", "tokenised")
    remedy = f"give the translations {other}, or {form} references"
    return f"{name} is {form}, and the references are {other}; {remedy}"


def marks_apart(lines: Sequence[str], unknown: float) -> float:
    """Return the share of sentences with a space before their final mark, as in tokenised text.

    If few sentences have such a mark, the share is *unknown*.
    """
    ends = [line[-2] == " " for line in lines if line[1:].endswith(_MARKS)]
    return mean(ends) if len(ends) > len(lines) / 10 else unknown


def remarks(
    test_set: EvaluationSet,
    tokenised: bool,
    references: Sequence[str],
    translations: Sequence[str],
    runs: Sequence[System],
) -> List[str]:
    """Return what the reader of the scores must know about the texts, which are *tokenised* or not."""
    facts = test_set.facts
    raw = facts.reference is not None
    apart = marks_apart(translations, 0.0) - marks_apart(references, 1.0)
    separate = sum(line.endswith(" .") for line in references)  # sacreBLEU's sign of tokenised text
    cased = raw and facts.lower_cased and any(line != line.lower() for line in references)
    sentences = {
        "The models translated in bfloat16, with numbers of 8 significant bits (--bf16).": any(
            run.known.bf16 for run in runs
        ),
        "The scores are those of tokenised text, as it is in the data. They are good for comparing these runs with "
        "each other, but not with published figures; for those, and for COMET, give detokenised "
        "references with --reference FILE.": tokenised,
        "The translations are tokenised as the data is, and the references of --reference are not, so the scores are "
        "too low. If Moses tokenised the data, give --detok moses.": raw
        and apart >= 0.5
        and facts.bleu_tokenizer is None,  # which, like chrF, reads no spaces
        "The references of --reference have capitals, and the data has none, so the scores are too low. Lower-case the "
        "references.": cased,
        f"The references of --reference look tokenised: {separate:,} of {len(references):,} end in a full stop "
        "that stands alone. Scores of tokenised text are not comparable with published figures.": raw
        and separate >= len(references) / 10,
    }
    return [sentence for sentence, holds in sentences.items() if holds]
