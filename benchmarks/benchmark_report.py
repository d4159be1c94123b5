"""How benchmark.py measures systems, which take turns, and reports medians and paired ratios in Markdown and JSON."""

import argparse
import json
import shlex
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import fairseq
import torch
from tqdm import tqdm

from bert_fused_lab.evidence.translating import hardware

# does the work of one system in a round; returns the amount of it
Turn = Callable[[], Dict[str, float]]
Samples = Dict[str, List[float]]  # the values of all rounds, by metric


@dataclass
class Result:
    """One table.  The systems are compared with the first one.

    Args:
        title: title, which says what was measured.
        samples: values of each system.
        shown: metrics in the table; the other metrics are in the JSON only.
        work: amount of work of each system in a round.
        facts: facts about each system that are counted and not measured.
    """

    title: str
    samples: Dict[str, Samples]
    shown: Sequence[str]
    work: Dict[str, Dict[str, float]]
    facts: Dict[str, Dict[str, Any]] = field(default_factory=dict)

    def as_dict(self) -> Dict[str, Any]:
        """Return the result as the JSON holds it."""
        systems = {
            name: {
                "metrics": {metric: {**summary(values), "rounds": values} for metric, values in samples.items()},
                "ratio": summary(self._ratios(name)),
                "work": self.work[name],
                "facts": self.facts.get(name, {}),
            }
            for name, samples in self.samples.items()
        }
        return {"title": self.title, "systems": systems}

    def markdown(self) -> str:
        """Return the table: median (minimum to maximum)."""
        first = next(iter(self.samples))
        facts = list(dict.fromkeys(key for values in self.facts.values() for key in values))
        head = ["system", *self.shown, f"seconds / {first}", *facts]
        rows = [head, ["---"] * len(head)]
        for name, samples in self.samples.items():
            cells = [_cell(summary(samples[metric])) for metric in self.shown]
            own = self.facts.get(name, {})
            counted = [_number(own[key]) if key in own else "" for key in facts]
            rows.append([name, *cells, _cell(summary(self._ratios(name))), *counted])
        return "\n".join([f"### {self.title}", "", *(f"| {' | '.join(row)} |" for row in rows)])

    def _ratios(self, name: str) -> List[float]:
        first = next(iter(self.samples.values()))["seconds"]
        return [own / other for own, other in zip(self.samples[name]["seconds"], first)]


def take_turns(title: str, turns: Dict[str, Turn], options: argparse.Namespace, shown: Sequence[str]) -> Result:
    """Let the systems take turns, A B C A B C ..., and time each turn; of the warm-up, only the first pass is reported.

    In the first pass, all shapes are new: a GPU may choose or build kernels for them.

    Args:
        title: title, which says what is measured.
        turns: turn of each system.
        options: flags, of which ``rounds``, ``warmup`` and ``device`` are read.
        shown: metrics of the table: ``seconds``, and ``ms/X`` and ``X/s`` for any X that the turns return.
    """
    samples: Dict[str, Samples] = {name: {} for name in turns}
    work: Dict[str, Dict[str, float]] = {}
    facts: Dict[str, Dict[str, Any]] = {}
    with tqdm(total=(options.warmup + options.rounds) * len(turns), desc=title, unit=" turns", disable=None) as bar:
        for number in range(options.warmup + options.rounds):
            for name, turn in turns.items():
                _synchronize(options)
                start = time.perf_counter()
                work[name] = turn()
                _synchronize(options)
                seconds = time.perf_counter() - start
                bar.update()
                if number == 0:
                    facts[name] = {f"first pass: {shown[0]}": _metric(shown[0], seconds, work[name])}
                if number < options.warmup:
                    continue
                for metric in dict.fromkeys(["seconds", *shown]):
                    samples[name].setdefault(metric, []).append(_metric(metric, seconds, work[name]))
    return Result(title, samples, shown, work, facts)


def summary(values: Sequence[float]) -> Dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def environment(options: argparse.Namespace) -> Dict[str, Any]:
    """Return the facts on which the figures depend beside the code."""
    return {
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "seed": options.seed,
        "precision": "fp16" if options.fp16 else None,
        **hardware(options.device),
        "fairseq": fairseq.__version__,
    }


def report(command: str, facts: Dict[str, Any], results: Sequence[Result], notes: Sequence[str]) -> str:
    """Return the facts, the tables and the notes as Markdown."""
    lines = [f"## benchmark: {command}", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items() if value is not None]
    for result in results:
        lines += ["", result.markdown()]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)])


def write_json(path: str, facts: Dict[str, Any], results: Sequence[Result], notes: Sequence[str]) -> None:
    content = {**facts, "results": [result.as_dict() for result in results], "notes": list(notes)}
    Path(path).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _metric(metric: str, seconds: float, work: Dict[str, float]) -> float:
    if metric == "seconds":
        return seconds
    if metric.startswith("ms/"):
        return 1000 * seconds / work[metric[len("ms/") :]]
    return work[metric[: -len("/s")]] / seconds


def _synchronize(options: argparse.Namespace) -> None:
    if options.device == "cuda":
        torch.cuda.synchronize()


def _cell(values: Dict[str, float]) -> str:
    return f"{_number(values['median'])} ({_number(values['min'])} to {_number(values['max'])})"


def _number(value: Any) -> str:
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
