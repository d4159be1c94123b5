"""Pictures of the evidence: BLEU over the number of pairs, and the learning curves."""

from pathlib import Path
from typing import Any, Dict, List

from evidence_part import SYSTEMS, Part

LABELS = {"transformer": "transformer", "continued": "control, without BERT", "bert_fused": "with BERT"}
_COLOURS = {"transformer": "#999999", "continued": "#d95f02", "bert_fused": "#1b66a8"}
_COLUMNS = 3  # of the learning curves


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
