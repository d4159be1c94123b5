#!/usr/bin/env python
"""Tables and pictures of what benchmarks/evidence.sh has trained.

    benchmarks/evidence_report.py evidence-out [--pictures docs/pictures]

The output is Markdown: the scores by the amount of text, how soon the control and the BERT-fused model reach the same
quality, and where a part has other systems too, all of them, also by length and by rare words.
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
    """The trainings of one part.

    Args:
        folder: what benchmarks/evidence.sh has made for it.

    Attributes:
        name: the number of sentence pairs in words, or "long training" of the part ``long``.
        pairs: number of sentence pairs; None for a part with a name, which is no point of the curve over them.
        runs: what the report says, by system.
        buckets: BLEU by length and by rare words, as in the report.
        bert_tests: BLEU of the BERT-fused model by the name of the test, such as ``shuffled``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        name = folder.name.rsplit("-", 1)[0]
        self.pairs = int(name) if name.isdigit() else None
        self.name = f"{name} training" if self.pairs is None else f"{self.pairs:,} pairs"
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        self.runs = {run["name"]: run for run in report["runs"]}
        self.buckets: Dict[str, Any] = report["buckets"]
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

    def updates(self, system: str) -> str:
        """Return the updates of the training, those of the transformer that it began from first."""
        begun = [str(run["updates"]) for run in self.runs[system]["began_from"]]
        return " + ".join([*begun, str(self.curve(system, "nll_loss")[-1][0])])

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
            elif began is not None and "BERT cache: " in line:  # also of a pass that was interrupted
                total += (_time(line) - began).total_seconds()
                began = _time(line)
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
        "| part | epochs | metric | transformer | control | with BERT | gain | BERT reads another sentence |",
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
            first = (part.name, epochs) if metric == "BLEU" else ("", "")
            lines.append("| " + " | ".join((*first, metric, *cells, f"{gain:+.1f}", other)) + " |")
    return lines


def time_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of updates and minutes to the same quality."""
    lines = [
        "| part | quality | control: updates | minutes | with BERT: updates | minutes | and with BERT's states |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for part in parts:
        control_update, fused_update = (part.seconds_of_update(system) for system in SYSTEMS[1:])
        for meter, unit, rises in (("nll_loss", "bits", False), ("bleu", "BLEU", True)):
            fused = part.curve("bert_fused", meter)
            for level, updates in levels(part.curve("continued", meter), rises).items():
                cells = [part.name, f"{level:.2f} {unit}", f"{updates:,}", _minutes(updates * control_update)]
                found = reached(fused, level, rises)
                if found is None:
                    cells += ["not reached", "", ""]
                else:
                    seconds = found * fused_update
                    cells += [f"{found:,}", _minutes(seconds), _minutes(seconds + part.seconds_of_states())]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def systems_table(part: Part) -> List[str]:
    """Return the lines of the table of all systems of *part*."""
    lines = ["| system | updates | epochs | valid nll, bits | BLEU | chrF | TER |", "|" + " --- |" * 7]
    for system in part.runs:
        cells = [f"`{system}`", part.updates(system), f"{part.epochs(system):.0f}"]
        cells.append(f"{min(value for _, value in part.curve(system, 'nll_loss')):.3f}")
        for metric in ("BLEU", "chrF", "TER"):
            value, interval, p = part.score(system, metric)
            cells.append(f"{value:.1f} ± {interval:.1f}" + ("" if p is None else f" (p = {p:.3f})"))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def buckets_table(part: Part) -> List[str]:
    """Return the lines of the table of BLEU by length and by rare words."""
    lines = [f"| BLEU of sentences | number | {' | '.join(f'`{name}`' for name in part.runs)} |"]
    lines.append("|" + " --- |" * (2 + len(part.runs)))
    for kind, unit in (("length", "length"), ("rare", "rare words")):
        for bucket in part.buckets[kind]:
            scores = [_score(bucket["BLEU"][name]) for name in part.runs]
            lines.append(f"| {unit}: {bucket['name']} | {bucket['sentences']} | {' | '.join(scores)} |")
    return lines


def _score(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.1f}"


def levels(curve: Points, rises: bool) -> Dict[float, int]:
    """Return the best values after the `_PARTS` of *curve*, and the updates after which they were reached."""
    found = {}
    for share in _PARTS:
        values = [value for updates, value in curve if updates <= share * curve[-1][0]]
        if not values:  # the first validation came later
            continue
        level = max(values) if rises else min(values)
        found[level] = next(updates for updates, value in curve if value == level)
    return found


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}"


def draw(parts: List[Part], folder: Path) -> None:
    """Draw BLEU over the number of pairs, and validation loss and BLEU over updates."""
    import matplotlib

    matplotlib.use("Agg")
    sized = {part.pairs: part for part in parts if part.pairs is not None}
    if sized:
        _draw_scores(sized, folder / "data_curve.png")
    _draw_curves(parts, folder / "learning_curves.png")


def _draw_scores(parts: Dict[int, Part], path: Path) -> None:
    from matplotlib import pyplot

    pairs = list(parts)
    figure, axis = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    for system in SYSTEMS:
        scores = [part.score(system, "BLEU") for part in parts.values()]
        axis.errorbar(
            pairs, [score[0] for score in scores], [score[1] for score in scores],
            label=LABELS[system], color=_COLOURS[system], marker="o", capsize=3,
        )  # fmt: skip
    for number, part in parts.items():
        score, interval, _ = part.score("bert_fused", "BLEU")
        gain = score - part.score("continued", "BLEU")[0]
        axis.annotate(f"{gain:+.1f}", (number, score + interval), (0, 4), textcoords="offset points", ha="center")
    axis.set(
        xscale="log",
        xlabel="sentence pairs",
        ylabel="BLEU",
        ylim=(0, 1.15 * max(run["scores"]["BLEU"]["score"] for part in parts.values() for run in part.runs.values())),
        xlim=(pairs[0] / 1.4, pairs[-1] * 1.4),
    )
    axis.set_xticks(pairs, [f"{number:,}" for number in pairs])
    axis.minorticks_off()
    _finish(figure, axis, path)


def _draw_curves(parts: List[Part], path: Path) -> None:
    from matplotlib import pyplot

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
            axis.set(title=part.name if row == 0 else "", xlabel="updates", ylabel=name)
    _finish(figure, axes[0][0], path)


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
        parser.error(f"{args.folder} has no PART-{args.seed}/report.json; run benchmarks/evidence.sh first")
    parts = sorted((Part(folder) for folder in folders), key=lambda part: part.pairs or float("inf"))
    print("\n".join([*scores_table(parts), "", *time_table(parts)]))
    for part in parts:
        if len(part.runs) > len(SYSTEMS):
            print("\n".join(["", f"{part.name}:", "", *systems_table(part), "", *buckets_table(part)]))
    for system in SYSTEMS:
        speeds = [f"{part.name}: {part.seconds_of_update(system):.2f}" for part in parts]
        print(f"\nseconds of an update, {system}: {', '.join(speeds)}")
    states = [f"{part.name}: {part.seconds_of_states():.0f}" for part in parts]
    print(f"\nseconds of BERT's states: {', '.join(states)}")
    if args.pictures:
        draw(parts, args.pictures)


if __name__ == "__main__":
    main()
