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

    One of *runs*, all runs of the report, may be the fair control; *data* is for the command that trains one.
    """
    if not _began_from(run, baseline):
        return None
    name, path = baseline.name, shlex.quote(str(baseline.files.checkpoint))
    trained_on = f"was trained on for {run.updates:,} updates, with a new optimizer and learning rate"
    start = f"{run.name} began from {name} and {trained_on}"
    if _is_control(run, baseline):
        return f"{start}."
    control = next((other.name for other in runs if _is_control(other, baseline)), None)
    remedy = (
        f"with the flags of its own training: fairseq-train {shlex.quote(data)} ... --finetune-from-model {path} "
        f"--max-update {run.updates}"
        if control is None
        else f"and {control} is {name} trained on: give {control} as --baseline."
    )
    return (
        f"{start}, so the difference may come from that training and not from BERT. The fair control is {name} trained "
        f"on for as long, {remedy}"
    )


def bert_verdict(name: str, scores: Dict[str, Scores]) -> Optional[str]:
    """Return a sentence that says whether run *name* uses BERT; None for a test set of a single sentence."""
    if "shuffled" not in scores:
        return None
    own = scores["shuffled"]["BLEU"]
    change = f"it changes by {_difference(own, scores['on']['BLEU'])} when BERT reads another sentence."
    known = "" if own.better < 0 else "This test set does not show that "
    return f"{known}{name} uses what BERT says: {change}"


def _is_control(run: Run, baseline: Run) -> bool:
    """Say whether *run* is *baseline* trained on, as the same kind of model."""
    return _began_from(run, baseline) and run.reads_bert == baseline.reads_bert


def _began_from(run: Run, baseline: Run) -> bool:
    """Say whether *run* began from the training of *baseline*: from its checkpoint, or from another of its save-dir.

    There, one of the two has a name that fairseq-train gives; other files of one folder may be of other trainings.
    """
    own = baseline.files.checkpoint.resolve()
    starts = [Path(origin.path).resolve() for origin in run.origins if origin.path is not None]
    return run is not baseline and any(
        path == own or (path.parent == own.parent and any(map(_OF_FAIRSEQ.fullmatch, (path.name, own.name))))
        for path in starts
    )


def _difference(own: Score, other: Score) -> str:
    difference = round(own.score, 2) - round(other.score, 2)
    return f"{difference:+.2f} BLEU (from {other.score:.2f} to {own.score:.2f}, p = {own.p:.3f})"
