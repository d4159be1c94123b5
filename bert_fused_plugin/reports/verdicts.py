"""The sentences of the report: is a run better than the baseline, is the comparison fair, does the run use BERT?"""

import re
import shlex
from pathlib import Path
from typing import Dict, Optional, Sequence

from bert_fused_plugin.reports.runs import Run
from bert_fused_plugin.reports.scoring import Score, Scores

_OF_FAIRSEQ = re.compile(r"checkpoint(\d*|_best|_last|_\d+_\d+|\.best_.*)\.pt")  # the names that fairseq-train gives


def verdict(name: str, baseline: str, scores: Dict[str, Scores]) -> str:
    """Return a sentence that says whether run *name* is better than *baseline*."""
    own, figures = scores[name]["BLEU"], _difference(scores[name]["BLEU"], scores[baseline]["BLEU"])
    if own.better:
        word = "better" if own.better > 0 else "worse"
        return f"{name} is {word} than {baseline} on this test set: {figures}."
    return f"{name} and {baseline} do not differ significantly on this test set: {figures}."


def fairness(run: Run, baseline: Run, runs: Sequence[Run], data: str) -> Optional[str]:
    """Return what the reader must know if *run* began from *baseline*, and None if it did not.

    Args:
        run: the run that is compared with *baseline*.
        baseline: the baseline.
        runs: all runs of the report, one of which may be the fair control.
        data: the data directory, for the command that trains the control.
    """
    if not _began_from(run, baseline):
        return None
    start, name = f"{run.name} began from {baseline.name}", baseline.name
    trained_on = f"was trained on for {run.updates:,} updates, with a new optimizer and learning rate"
    if _is_control(run, baseline):
        return f"{start} and {trained_on}."
    unfair = f"{start} and {trained_on}, so the difference may come from that training and not from BERT."
    control = next((other.name for other in runs if _is_control(other, baseline)), None)
    if control is not None:
        return (
            f"{unfair} The fair control is {name} trained on for as long, and {control} is {name} trained on: "
            f"give {control} as --baseline."
        )
    return (
        f"{unfair} The fair control is {name} trained on for as long, with the flags of its own training: "
        f"fairseq-train {shlex.quote(data)} ... --finetune-from-model {shlex.quote(str(baseline.files.checkpoint))} "
        f"--max-update {run.updates}"
    )


def bert_verdict(name: str, scores: Dict[str, Scores]) -> Optional[str]:
    """Return a sentence that says whether run *name* uses BERT; None for a test set of a single sentence."""
    if "shuffled" not in scores:
        return None
    own = scores["shuffled"]["BLEU"]
    figures = _difference(own, scores["on"]["BLEU"])
    if own.better < 0:
        return f"{name} uses what BERT says: it changes by {figures} when BERT reads another sentence."
    return (
        f"This test set does not show that {name} uses what BERT says: it changes by {figures} when BERT reads another "
        "sentence."
    )


def _is_control(run: Run, baseline: Run) -> bool:
    """Say whether *run* is *baseline* trained on, as the same kind of model."""
    return _began_from(run, baseline) and run.reads_bert == baseline.reads_bert


def _began_from(run: Run, baseline: Run) -> bool:
    own = baseline.files.checkpoint
    return run is not baseline and any(
        origin.path is not None and _of_one_training(Path(origin.path), own) for origin in run.origins
    )


def _of_one_training(path: Path, other: Path) -> bool:
    """Say whether both are the same file, or files of one save-dir: those of fairseq-train and averages."""
    path, other = path.resolve(), other.resolve()
    if path == other:
        return True
    return path.parent == other.parent and any(_OF_FAIRSEQ.fullmatch(name) for name in (path.name, other.name))


def _difference(own: Score, other: Score) -> str:
    difference = round(own.score, 2) - round(other.score, 2)
    return f"{difference:+.2f} BLEU (from {other.score:.2f} to {own.score:.2f}, p = {own.p:.3f})"
