#!/usr/bin/env python
"""Tables and pictures of what benchmarks/evidence.sh has trained.

    benchmarks/evidence_report.py evidence-out [--pictures docs/pictures]

The output is Markdown: the scores by the amount of text, and how soon the control and the BERT-fused model reach the
same quality.
"""

import argparse
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from bert_fused_plugin.reports.training_log import Points, read_curves

SYSTEMS = ("transformer", "continued", "bert_fused")
LABELS = {"transformer": "transformer", "continued": "control, without BERT", "bert_fused": "with BERT"}
_COLOURS = {"transformer": "#999999", "continued": "#d95f02", "bert_fused": "#1b66a8"}
_PARTS = (0.25, 0.5, 1.0)  # of the control's further updates: the levels of quality that are looked for


class Part:
    """The trainings on one number of sentence pairs.

    Args:
        folder: what benchmarks/evidence.sh has made for it.

    Attributes:
        pairs: number of sentence pairs.
        runs: what the report says, by system.
        bert_tests: BLEU of the BERT-fused model by the name of the test, such as ``shuffled``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pairs = int(folder.name.split("-")[0])
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        self.runs = {run["name"]: run for run in report["runs"]}
        self.bert_tests = {
            state["name"]: state["scores"]["BLEU"]["score"]
            for test in report["bert_tests"] if test["run"] == "bert_fused" for state in test["states"]
        }  # fmt: skip

    def score(self, system: str, metric: str) -> Tuple[float, float, Optional[float]]:
        """Return the score, half of its interval, and p against the control."""
        found = self.runs[system]["scores"][metric]
        return found["score"], found["interval"], found["p"]

    def log(self, system: str) -> str:
        return (self.folder / f"{system}.log").read_text(encoding="utf-8", errors="replace")

    def curve(self, system: str, meter: str) -> Points:
        """Return (updates, value) on the validation set."""
        return read_curves([self.folder / f"{system}.log"])[f"valid {meter}"]

    def seconds_of_update(self, system: str) -> float:
        """Return the time of an update in the fastest tenth of the log, which other work has disturbed least."""
        speeds = sorted(float(value) for value in re.findall(r"train_inner \|.* ups=([\d.]+)", self.log(system)))
        return 1 / speeds[int(0.9 * len(speeds))]

    def seconds_of_states(self) -> float:
        """Return the time in which BERT's states were computed; 0 if they were there."""
        began = None
        total = 0.0
        for line in self.log("bert_fused").splitlines():
            if re.search(r"\d new sentences of", line):
                began = _time(line)
            elif began is not None and "BERT cache: 100 %" in line:
                total += (_time(line) - began).total_seconds()
                began = None
        return total

    def epochs(self, system: str) -> float:
        """Return how often the training has read the corpus."""
        found = re.findall(r"train_inner \| epoch (\d+): +(\d+) / (\d+) ", self.log(system))
        epoch, batch, batches = (int(number) for number in found[-1])
        return epoch - 1 + batch / batches


def _time(line: str) -> datetime:
    return datetime.strptime(line[:19], "%Y-%m-%d %H:%M:%S")


def reached(curve: Points, level: float, rises: bool) -> Optional[int]:
    """Return the updates after which *curve* is first as good as *level*, or None."""
    return next((updates for updates, value in curve if (value >= level if rises else value <= level)), None)


def scores_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of scores."""
    lines = [
        "| pairs | epochs | metric | transformer | control | with BERT | gain | BERT reads another sentence |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for part in parts:
        for metric in ("BLEU", "chrF"):
            cells = []
            for system in SYSTEMS:
                value, interval, p = part.score(system, metric)
                cells.append(f"{value:.1f} ± {interval:.1f}" + ("" if p is None else f" (p = {p:.3f})"))
            gain = part.score("bert_fused", metric)[0] - part.score("continued", metric)[0]
            further = ", ".join(f"{part.epochs(system):.0f}" for system in SYSTEMS[1:])
            epochs = f"{part.epochs('transformer'):.0f} + {further}"
            other = f"{part.bert_tests['shuffled']:.1f}" if metric == "BLEU" else ""
            first = (f"{part.pairs:,}", epochs) if metric == "BLEU" else ("", "")
            lines.append("| " + " | ".join((*first, metric, *cells, f"{gain:+.1f}", other)) + " |")
    return lines


def time_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of updates and minutes to the same quality."""
    lines = [
        "| pairs | quality | control: updates | minutes | with BERT: updates | minutes | and with BERT's states |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for part in parts:
        control_update, fused_update = (part.seconds_of_update(system) for system in SYSTEMS[1:])
        for meter, unit, rises in (("nll_loss", "bits", False), ("bleu", "BLEU", True)):
            fused = part.curve("bert_fused", meter)
            for level, updates in levels(part.curve("continued", meter), rises).items():
                cells = [f"{part.pairs:,}", f"{level:.2f} {unit}", f"{updates:,}", _minutes(updates * control_update)]
                found = reached(fused, level, rises)
                if found is None:
                    cells += ["not reached", "", ""]
                else:
                    seconds = found * fused_update
                    cells += [f"{found:,}", _minutes(seconds), _minutes(seconds + part.seconds_of_states())]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def levels(curve: Points, rises: bool) -> Dict[float, int]:
    """Return the best values after the `_PARTS` of *curve*, and the updates after which they were reached."""
    found = {}
    for share in _PARTS:
        values = [value for updates, value in curve if updates <= share * curve[-1][0]]
        level = max(values) if rises else min(values)
        found[level] = next(updates for updates, value in curve if value == level)
    return found


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}"


def draw(parts: List[Part], folder: Path) -> None:
    """Draw BLEU over the number of pairs, and validation loss and BLEU over updates."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pairs = [part.pairs for part in parts]
    figure, axis = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    for system in SYSTEMS:
        scores = [part.score(system, "BLEU") for part in parts]
        axis.errorbar(
            pairs, [score[0] for score in scores], [score[1] for score in scores],
            label=LABELS[system], color=_COLOURS[system], marker="o", capsize=3,
        )  # fmt: skip
    for part in parts:
        score, interval, _ = part.score("bert_fused", "BLEU")
        gain = score - part.score("continued", "BLEU")[0]
        axis.annotate(f"{gain:+.1f}", (part.pairs, score + interval), (0, 4), textcoords="offset points", ha="center")
    axis.set(
        xscale="log",
        xlabel="sentence pairs",
        ylabel="BLEU",
        ylim=(0, 1.15 * max(run["scores"]["BLEU"]["score"] for part in parts for run in part.runs.values())),
        xlim=(pairs[0] / 1.4, pairs[-1] * 1.4),
    )
    axis.set_xticks(pairs, [f"{number:,}" for number in pairs])
    axis.minorticks_off()
    _finish(figure, axis, folder / "data_curve.png")

    figure, axes = pyplot.subplots(2, len(parts), figsize=(3 * len(parts), 5), layout="constrained", squeeze=False)
    for column, part in enumerate(parts):
        for row, (meter, name) in enumerate((("nll_loss", "nll, bits"), ("bleu", "BLEU"))):
            axis = axes[row][column]
            begun = part.curve("transformer", meter)[-1][0]
            for system in SYSTEMS:
                start = 0 if system == "transformer" else begun
                curve = part.curve(system, meter)
                axis.plot(
                    [start + updates for updates, _ in curve], [value for _, value in curve],
                    label=LABELS[system], color=_COLOURS[system],
                )  # fmt: skip
            values = [value for _, value in part.curve("transformer", meter)]
            if row == 0:
                best = min(value for system in SYSTEMS for _, value in part.curve(system, meter))
                axis.set_ylim(best - 0.1, min(best + 3, max(values)))
            axis.set(title=f"{part.pairs:,} pairs" if row == 0 else "", xlabel="updates", ylabel=name)
    _finish(figure, axes[0][0], folder / "learning_curves.png")


def _finish(figure: Any, axis: Any, path: Path) -> None:
    axis.legend(frameon=False, fontsize="small", loc="best")
    figure.savefig(path, dpi=110)
    print(f"{path} is written")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="directory OUT of benchmarks/evidence.sh")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="also draw data_curve.png and learning_curves.png")
    parser.add_argument("--seed", type=int, default=1, help="which seed; default: %(default)s")
    args = parser.parse_args()
    folders = [path.parent for path in args.folder.glob(f"*-{args.seed}/report.json")]
    if not folders:
        parser.error(f"{args.folder} has no PAIRS-{args.seed}/report.json; run benchmarks/evidence.sh first")
    parts = sorted((Part(folder) for folder in folders), key=lambda part: part.pairs)
    print("\n".join([*scores_table(parts), "", *time_table(parts)]))
    for system in SYSTEMS:
        speeds = [f"{part.pairs:,}: {part.seconds_of_update(system):.2f}" for part in parts]
        print(f"\nseconds of an update, {system}: {', '.join(speeds)}")
    states = [f"{part.pairs:,}: {part.seconds_of_states():.0f}" for part in parts]
    print(f"\nseconds of BERT's states: {', '.join(states)}")
    if args.pictures:
        draw(parts, args.pictures)


if __name__ == "__main__":
    main()
