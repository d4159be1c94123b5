"""The sentences of the report: is a run better than the baseline, is the comparison fair, does the run use BERT?"""

import os
import re
import shlex
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from bert_fused_lab.report.scoring import SIGNIFICANT, Score, Scores, p_text
from bert_fused_lab.report.systems import EvaluationSet, System, described

_OF_FAIRSEQ = re.compile(r"checkpoint(\d*|_best|_last|_\d+_\d+|\.best_.*)\.pt")  # the names that fairseq-train gives

_LEADS = {  # the sign of a significant gain, and whether the model uses BERT: what both say
    (1, True): "BERT is used, and improves this test set",
    (1, False): "The model with BERT is better, but this test set does not show that BERT is the reason",
    (1, None): "The model with BERT is better on this test set",
    (0, True): "BERT is used, but by BLEU, this test set does not show that it helps",
    (0, False): "BERT makes no difference to BLEU that this test set shows",
    (0, None): "By BLEU, this test set does not show that BERT helps",
    (-1, True): "BERT is used, but makes the translations of this test set worse",
    (-1, False): "The model with BERT is worse, and this test set does not show that it uses BERT",
    (-1, None): "The model with BERT is worse on this test set",
}

_WORDS = ("and {} do not differ significantly in BLEU", "is better than {}", "is worse than {}")  # by the sign


def question(systems: Sequence[System], test_sets: Sequence[EvaluationSet]) -> str:
    """Return what a report on *systems* answers."""
    main, several = with_bert(systems), sum(system.reads_bert for system in systems) > 1
    source, target = (f"{name[:1].upper()}{name[1:]}" for name in test_sets[0].facts.names)
    languages = f"{source} to {target} " if source else ""
    about = f"{languages}on {' and '.join(test_set.name for test_set in test_sets)}?"
    if main:
        return f"Does BERT help {f'in {main.name}, ' if several else ''}{about}"
    lead = f"How good is {systems[0].name}" if len(systems) == 1 else "Which system is better"
    return f"{lead} {'from ' if languages else ''}{about}"


def with_bert(runs: Sequence[System]) -> Optional[System]:
    """Return the first of *runs* with BERT, if the baseline, the first of all, is known to have none."""
    baseline, *others = runs
    return next((run for run in others if run.reads_bert), None) if baseline.facts and not baseline.reads_bert else None


def answer(run: System, baseline: str, scores: Dict[str, Scores], used: Optional[bool], unfair: bool) -> str:
    """Return the joined verdict on *run*, which has BERT; *used* is what `bert_verdict` says of it."""
    score = scores[run.name]["BLEU"]
    lead = _LEADS[score.better, used]
    if unfair:
        word = _WORDS[score.better].format(baseline)
        lead = f"{run.name} {word}, but they differ in more than BERT, so this does not tell what BERT does"
    return f"{lead}: against {baseline}, {run.name} {gain(score)}.{_by_chrf(run.name, scores)}"


def gain(score: Score) -> str:
    """Return what a system gains or loses against the baseline."""
    points, (low, high) = round(score.gain, 2), score.gain_interval
    change = f"{'gains' if points > 0 else 'loses'} {abs(points):.2f} BLEU" if points else "has the same BLEU"
    chance = ", which may be chance" if points and not score.better else ""
    if chance and score.p is not None and score.p < SIGNIFICANT:
        chance += f" with several comparisons (alone: p = {p_text(score.p)})"
    return f"{change} (95 % interval {low:+.2f} to {high:+.2f}, p = {p_text(score.p_holm)}){chance}"


def verdict(name: str, baseline: str, scores: Dict[str, Scores]) -> str:
    """Return a sentence that says whether system *name* is better than *baseline*."""
    score = scores[name]["BLEU"]
    word = _WORDS[score.better].format(baseline)
    return f"{name} {word} on this test set: {name} {gain(score)}.{_by_chrf(name, scores)}"


def _by_chrf(name: str, scores: Dict[str, Scores]) -> str:
    """Return what chrF says of system *name*, if its difference is significant and BLEU says something else."""
    chrf = scores[name]["chrF"]
    if chrf.better in (0, scores[name]["BLEU"].better):
        return ""
    word = "better" if chrf.better > 0 else "worse"
    return f" By chrF, {name} is {word} ({chrf.gain:+.2f}, p = {p_text(chrf.p_holm)})."


def fairness(run: System, baseline: System, runs: Sequence[System], data: str) -> Optional[str]:
    """Return what the reader must know if *run* and *baseline* differ in more than BERT, and None if they do not.

    One of *runs*, all runs of the report, may be the fair control; *data* is for the command that trains one.
    """
    differences = [] if run.reads_bert == baseline.reads_bert else _beside_bert(run, baseline)
    sentences = [f"{one}, so the difference may come from that and not from BERT." for one in differences]
    return " ".join(filter(None, (*sentences, _longer(run, baseline, runs, data)))) or None


def _beside_bert(run: System, baseline: System) -> List[str]:
    """Return in what else *run*, which reads BERT, and *baseline*, which does not, differ, or the other way round."""
    differences, name = [], baseline.name
    facts, base = run.known, baseline.known
    if facts.is_transformer != base.is_transformer:
        differences.append(f"is a model of another kind ({facts.architecture}) than {name} ({base.architecture})")
    if facts.consistency != base.consistency:
        differences.append(f"was trained with --consistency {facts.consistency}, and {name} with {base.consistency}")
    search, others = ({**of.decoding, "bf16": of.bf16, "max_tokens": None} for of in (facts, base))
    if changed := [key for key in search if search[key] != others.get(key)]:
        this, that = (", ".join(f"{key} {of.get(key)}" for key in changed) for of in (search, others))
        differences.append(f"was translated with {this}, and {name} with {that}")
    if run.origins and not baseline.origins and _start(run, baseline) is None:
        differences.append(f"{described(run.origins)}, and no such start of {name} is recorded")
    return [f"{run.name} {difference}" for difference in differences]


def _longer(run: System, baseline: System, runs: Sequence[System], data: str) -> Optional[str]:
    start_path = _start(run, baseline)
    if start_path is None:
        return None
    name = baseline.name
    path = shlex.quote(str(start_path if start_path.exists() else baseline.checkpoint))
    trained_on = f"was fine-tuned for {run.known.updates:,} updates, with a new optimizer and learning rate"
    start = f"{run.name} began from {name} and {trained_on}"
    if _is_control(run, baseline):
        return f"{start}."
    control = next((other.name for other in runs if _is_control(other, baseline)), None)
    most = max(run.known.max_update, run.known.updates)
    remedy = (
        f"with the flags of its own training (and --patience, if {run.name} had it): fairseq-train "
        f"{shlex.quote(data)} ... --finetune-from-model {path} --max-update {most}"
        if control is None
        else f"and {control} is {name}, fine-tuned: give {control} as --baseline."
    )
    return (
        f"{start}, so the difference may come from that training and not from BERT. The fair control is {name} "
        f"fine-tuned for as long, {remedy}"
    )


def unfinished(runs: Sequence[System]) -> Optional[str]:
    """Return the sentence about those of *runs* that ``--max-update`` ended while they improved; None if none did."""
    names = []
    for run in runs:
        updates, bleu = zip(*run.known.curves.get("valid bleu") or [(0, 0.0)])
        if 0 < run.known.max_update <= updates[-1] and bleu[-1] == max(bleu):
            names.append(run.name)
    if not names:
        return None
    return f"Of {' and '.join(names)}, the last validation before --max-update was the best, so train longer."


def bert_verdict(name: str, scores: Dict[str, Scores]) -> Tuple[Optional[bool], Optional[str]]:
    """Return whether run *name* is worse when BERT reads another sentence, and the sentence that says so.

    Both are None for a test set of a single sentence, and for a run that does not translate yet.
    """
    if "shuffled" not in scores or scores["on"]["BLEU"].score < 1:
        return None, None
    score = scores["shuffled"]["BLEU"]
    used = score.better < 0
    lead = f"{name} uses BERT" if used else f"This test set does not show that {name} uses BERT"
    return used, f"{lead}: when BERT reads another sentence, it {gain(score)}."


def _is_control(run: System, baseline: System) -> bool:
    """Say whether *run* is *baseline* fine-tuned, as the same kind of model."""
    return _start(run, baseline) is not None and run.reads_bert == baseline.reads_bert


def _start(run: System, baseline: System) -> Optional[Path]:
    """Return the checkpoint of the training of *baseline* that *run* began from, if it did: maybe not the one compared.

    There, one of the two has a name that fairseq-train gives; other files of one folder may be of other trainings.
    A folder that is no longer where it was is known by its name, and a file by its name and number of updates.
    """
    checkpoint = baseline.checkpoint.resolve()

    def is_of_baseline(path: Path, updates: Optional[int]) -> bool:
        same = path.name == checkpoint.name
        moved = not os.path.exists(path) and path.parent.name == checkpoint.parent.name
        if path.parent == checkpoint.parent or (moved and (not same or updates in (None, baseline.known.updates))):
            return same or any(map(_OF_FAIRSEQ.fullmatch, (path.name, checkpoint.name)))
        return False

    if run is baseline:
        return None
    own_origins = [origin for origin in run.origins if origin not in baseline.origins]  # both may begin from a third
    starts = [(Path(path).resolve(), updates) for path, updates in own_origins if path is not None]
    return next((path for path, updates in starts if is_of_baseline(path, updates)), None)
