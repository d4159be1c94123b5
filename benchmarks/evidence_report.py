#!/usr/bin/env python
"""Tables and pictures of what benchmarks/evidence.sh has trained.

    benchmarks/evidence_report.py evidence-out [--pictures docs/pictures] [--json docs/evidence]
    benchmarks/evidence_report.py docs/evidence

The second command reads the files of figures that the first one has written; they hold no text of the corpora.

The output is Markdown: the scores by the amount of text, the gain of each seed, how soon the control and the BERT-fused
model reach the same quality, and where a part has other systems too, all of them, also by length and by rare words.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Tuple

from bert_fused_plugin.reports.training_log import Points, read_curves

SYSTEMS = ("transformer", "continued", "bert_fused")
LABELS = {"transformer": "transformer", "continued": "control, without BERT", "bert_fused": "with BERT"}
_NAMES = {"long": "160,000 pairs, long training", "multi30k": "Multi30k, long training"}
_OF_REPORT = ("sentences", "decoding", "hardware", "baseline", "signatures", "buckets", "bert_tests")
_OF_RUN = ("name", "architecture", "updates", "parameters", "scores", "length", "entropy", "alphas")
_PARTS = (0.25, 0.5, 1.0)  # of the control's further updates: the levels of quality that are looked for
_COLOURS = {"transformer": "#999999", "continued": "#d95f02", "bert_fused": "#1b66a8"}
_COLUMNS = 3  # of the learning curves


class Part:
    """The trainings of one part.

    Args:
        figures: what `figures_of` returns.

    Attributes:
        figures: the same.
        name: what tables and pictures call it: the number of sentence pairs in words, or its name.
        seed: seed of the trainings.
        pairs: number of sentence pairs; None for a part with a name, which is no point of the curve over them.
        runs: what the report and the logs say, by system.
        bert_tests: BLEU of the BERT-fused model by the name of the test, such as ``shuffled``.
    """

    def __init__(self, figures: Dict[str, Any]) -> None:
        self.figures = figures
        name, seed = figures["part"].rsplit("-", 1)
        self.seed = int(seed)
        self.pairs = int(name) if name.isdigit() else None
        self.name = _NAMES.get(name, name) if self.pairs is None else f"{self.pairs:,} pairs"
        self.runs = {run["name"]: run for run in figures["runs"]}
        self.bert_tests = {
            state["name"]: state["scores"]["BLEU"]["score"]
            for test in figures["bert_tests"] if test["run"] == "bert_fused" for state in test["states"]
        }  # fmt: skip

    def score(self, system: str, metric: str) -> Tuple[float, float, Optional[float]]:
        """Return the score, half of its interval, and p against the control."""
        found = self.runs[system]["scores"][metric]
        return found["score"], found["interval"], found["p"]

    def curve(self, system: str, meter: str) -> Points:
        """Return (updates, value) on the validation set."""
        return [(updates, value) for updates, value in self.runs[system]["curves"][f"valid {meter}"]]

    def cell(self, system: str, metric: str) -> str:
        """Return the score as tables show it: 20.0 ± 1.0 (p = 0.001)."""
        value, interval, p = self.score(system, metric)
        return f"{value:.1f} ± {interval:.1f}" + ("" if p is None else f" (p = {p:.3f})")

    def gain(self, metric: str) -> str:
        """Return what BERT adds to the score of the control."""
        return f"{self.score('bert_fused', metric)[0] - self.score('continued', metric)[0]:+.1f}"

    def updates(self, system: str) -> str:
        """Return the updates of the training, those of the transformer that it began from first."""
        begun = map(str, self.runs[system]["began_from"])
        return " + ".join([*begun, str(self.curve(system, "nll_loss")[-1][0])])


def read_parts(folder: Path) -> List[Part]:
    """Return the parts in *folder*, which holds their trainings, or files of figures, in the order of their sizes."""
    found = [Part(figures_of(path.parent)) for path in folder.glob("*-*/report.json")]
    found += [Part(json.loads(path.read_text(encoding="utf-8"))) for path in folder.glob("*-*.json")]
    return sorted(found, key=lambda part: (part.pairs or float("inf"), part.name, part.seed))


def figures_of(folder: Path) -> Dict[str, Any]:
    """Return the figures of the trainings in *folder*: those of its report and of its logs, without text and paths."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return {
        "part": folder.name,
        **{key: report[key] for key in _OF_REPORT},
        "runs": [
            {
                **{key: run[key] for key in _OF_RUN},
                "began_from": [origin["updates"] for origin in run["began_from"]],
                **_of_log(folder / f"{run['name']}.log"),
            }
            for run in report["runs"]
        ],
    }


def _of_log(path: Path) -> Dict[str, Any]:
    """Return the figures of a log; the time of an update is that of the fastest tenth, which was disturbed least."""
    log = path.read_text(encoding="utf-8", errors="replace")
    speeds = sorted(float(value) for value in re.findall(r"train_inner \|.* ups=([\d.]+)", log))
    epoch, batch, batches = map(int, re.findall(r"train_inner \| epoch (\d+): +(\d+) / (\d+) ", log)[-1])
    states = re.findall(r"BERT cache: [\d,]+ word pieces in (\d+) s", log)
    return {
        "epochs": epoch - 1 + batch / batches,
        "seconds_of_update": 1 / speeds[int(0.9 * len(speeds))],
        "seconds_of_states": float(sum(map(int, states))),
        "curves": read_curves([path]),
    }


def table(head: str, rows: Iterable[Iterable[str]]) -> List[str]:
    """Return the lines of a table; the cells of its *head* are separated by bars."""
    cells = [[cell.strip() for cell in head.split("|")], *map(list, rows)]
    cells.insert(1, ["---"] * len(cells[0]))
    return [f"| {' | '.join(row)} |" for row in cells]


def scores_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of scores."""
    rows = []
    for part in parts:
        further = ", ".join(f"{part.runs[system]['epochs']:.0f}" for system in SYSTEMS[1:])
        first = (part.name, f"{part.runs['transformer']['epochs']:.0f} + {further}")
        scores = {metric: [part.cell(system, metric) for system in SYSTEMS] for metric in ("BLEU", "chrF")}
        rows.append((*first, "BLEU", *scores["BLEU"], part.gain("BLEU"), f"{part.bert_tests['shuffled']:.1f}"))
        rows.append(("", "", "chrF", *scores["chrF"], part.gain("chrF"), ""))
    return table("part|epochs|metric|transformer|control|with BERT|gain|BERT reads another sentence", rows)


def seeds_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of gains by seed."""
    rows = []
    for part in parts:
        for metric in ("BLEU", "chrF"):
            values = [f"{part.score(system, metric)[0]:.1f}" for system in SYSTEMS]
            p = f"{part.score('bert_fused', metric)[2]:.3f}"
            rows.append((part.name, str(part.seed), metric, *values, part.gain(metric), p))
    return table("part|seed|metric|transformer|control|with BERT|gain|p", rows)


def time_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of updates and minutes to the same quality."""
    rows = []
    for part in parts:
        control, fused = (part.runs[system]["seconds_of_update"] for system in SYSTEMS[1:])
        for meter, unit, rises in (("nll_loss", "bits", False), ("bleu", "BLEU", True)):
            for level, updates in levels(part.curve("continued", meter), rises).items():
                found = reached(part.curve("bert_fused", meter), level, rises)
                cells = ["not reached", "", ""]
                if found is not None:
                    states = part.runs["bert_fused"]["seconds_of_states"]
                    cells = [f"{found:,}", _minutes(found * fused), _minutes(found * fused + states)]
                rows.append([part.name, f"{level:.2f} {unit}", f"{updates:,}", _minutes(updates * control), *cells])
    return table("part|quality|control: updates|minutes|with BERT: updates|minutes|and with BERT's states", rows)


def systems_table(part: Part) -> List[str]:
    """Return the lines of the table of all systems of *part*."""
    rows = []
    for system, run in part.runs.items():
        nll = min(value for _, value in part.curve(system, "nll_loss"))
        scores = [part.cell(system, metric) for metric in ("BLEU", "chrF", "TER")]
        rows.append([f"`{system}`", part.updates(system), f"{run['epochs']:.0f}", f"{nll:.3f}", *scores])
    return table("system|updates|epochs|valid nll, bits|BLEU|chrF|TER", rows)


def buckets_table(part: Part) -> List[str]:
    """Return the lines of the table of BLEU by length and by rare words."""
    rows = []
    for kind, unit in (("length", "length"), ("rare", "rare words")):
        for bucket in part.figures["buckets"][kind]:
            scores = [bucket["BLEU"][name] for name in part.runs]
            cells = ["" if score is None else f"{score:.1f}" for score in scores]
            rows.append([f"{unit}: {bucket['name']}", str(bucket["sentences"]), *cells])
    return table("|".join(["BLEU of sentences", "number", *(f"`{name}`" for name in part.runs)]), rows)


def reached(curve: Points, level: float, rises: bool) -> Optional[int]:
    """Return the updates after which *curve* is first as good as *level*, or None."""
    return next((updates for updates, value in curve if (value >= level if rises else value <= level)), None)


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


def draw(parts: List[Part], other_seeds: List[Part], folder: Path) -> None:
    """Draw BLEU over the number of pairs, with crosses for *other_seeds*, and loss and BLEU of *parts* over updates."""
    import matplotlib

    matplotlib.use("Agg")
    sized = {part.pairs: part for part in parts if part.pairs is not None}
    if sized:
        _draw_scores(sized, [part for part in other_seeds if part.pairs in sized], folder / "data_curve.png")
    _draw_curves(parts, folder / "learning_curves.png")


def _draw_scores(parts: Dict[int, Part], other_seeds: List[Part], path: Path) -> None:
    from matplotlib import pyplot

    pairs = list(parts)
    figure, axis = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    for system in SYSTEMS:
        scores = [part.score(system, "BLEU") for part in parts.values()]
        axis.errorbar(
            pairs, [score[0] for score in scores], [score[1] for score in scores],
            label=LABELS[system], color=_COLOURS[system], marker="o", capsize=3,
        )  # fmt: skip
        for part in other_seeds:
            axis.plot(1.1 * part.pairs, part.score(system, "BLEU")[0], "x", color=_COLOURS[system])
    for number, part in parts.items():
        score, interval, _ = part.score("bert_fused", "BLEU")
        gain = score - part.score("continued", "BLEU")[0]
        axis.annotate(f"{gain:+.1f}", (number, score + interval), (-4, 0), textcoords="offset points", ha="right")
    axis.set(
        xscale="log",
        xlabel="sentence pairs",
        ylabel="BLEU",
        ylim=(0, 1.15 * max(run["scores"]["BLEU"]["score"] for part in parts.values() for run in part.runs.values())),
        xlim=(pairs[0] / 1.6, pairs[-1] * 1.4),
    )
    axis.set_xticks(pairs, [f"{number:,}" for number in pairs])
    axis.minorticks_off()
    _finish(figure, axis, path)


def _draw_curves(parts: List[Part], path: Path) -> None:
    from matplotlib import pyplot

    bands = -(-len(parts) // _COLUMNS)  # each has a row of losses and a row of BLEU
    figure, axes = pyplot.subplots(2 * bands, _COLUMNS, figsize=(9, 4.4 * bands), layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for number, part in enumerate(parts):
        band, column = divmod(number, _COLUMNS)
        _draw_curve(axes[2 * band][column], part, "nll_loss", "nll, bits")
        _draw_curve(axes[2 * band + 1][column], part, "bleu", "BLEU")
        curve = [value for _, value in part.curve("transformer", "nll_loss")]
        best = min(value for system in SYSTEMS for _, value in part.curve(system, "nll_loss"))
        axes[2 * band][column].set(ylim=(best - 0.1, min(best + 3, max(curve))))
        axes[2 * band][column].set_title(part.name, fontsize="medium")
    _finish(figure, axes[0][0], path)


def _draw_curve(axis: Any, part: Part, meter: str, name: str) -> None:
    axis.axis("on")
    begun = part.curve("transformer", meter)[-1][0]
    for system in SYSTEMS:
        start = 0 if system == "transformer" else begun
        curve = part.curve(system, meter)
        axis.plot(
            [start + updates for updates, _ in curve], [value for _, value in curve],
            label=LABELS[system], color=_COLOURS[system],
        )  # fmt: skip
    axis.set(xlabel="updates", ylabel=name)


def _finish(figure: Any, axis: Any, path: Path) -> None:
    axis.legend(frameon=False, fontsize="small", loc="best")
    figure.savefig(path, dpi=110)
    print(f"{path} is written")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="directory OUT of benchmarks/evidence.sh, or files of --json")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="also draw data_curve.png and learning_curves.png")
    parser.add_argument(
        "--json", type=Path, metavar="DIR", help="also write the figures of each part to DIR/PART-SEED.json"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the tables and pictures; default: %(default)s")
    args = parser.parse_args()
    found = read_parts(args.folder)
    parts = [part for part in found if part.seed == args.seed]
    if not parts:
        parser.error(f"{args.folder} has no PART-{args.seed}/report.json; run benchmarks/evidence.sh first")
    print_tables(parts, found)
    if args.json:
        args.json.mkdir(parents=True, exist_ok=True)
        for part in found:
            path = args.json / f"{part.figures['part']}.json"
            path.write_text(json.dumps(part.figures, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{path} is written")
    if args.pictures:
        draw(compared(parts), [part for part in compared(found) if part.seed != args.seed], args.pictures)


def compared(parts: List[Part]) -> List[Part]:
    """Return those of *parts* that have a transformer, its control and a BERT-fused model."""
    return [part for part in parts if set(SYSTEMS) <= part.runs.keys()]


def print_tables(parts: List[Part], found: List[Part]) -> None:
    """Print the tables of *parts*, and the gains of all seeds in *found*."""
    with_bert = compared(parts)
    if with_bert:
        print("\n".join([*scores_table(with_bert), "", *seeds_table(compared(found)), "", *time_table(with_bert)]))
    for part in parts:
        if part.runs.keys() > set(SYSTEMS) or part not in with_bert:
            print("\n".join(["", f"{part.name}:", "", *systems_table(part), "", *buckets_table(part)]))
    for system in SYSTEMS:
        speeds = [f"{part.name}: {part.runs[system]['seconds_of_update']:.2f}" for part in parts if system in part.runs]
        if speeds:
            print(f"\nseconds of an update, {system}: {', '.join(speeds)}")
    if with_bert:
        states = [f"{part.name}: {part.runs['bert_fused']['seconds_of_states']:.0f}" for part in with_bert]
        print(f"\nseconds of BERT's states: {', '.join(states)}")


if __name__ == "__main__":
    main()
