"""Pictures of the evidence: BLEU over the number of pairs, and the learning curves."""

from pathlib import Path
from typing import Any, Dict, List

from evidence_part import SYSTEMS, Part

LABELS = {"transformer": "transformer", "continued": "control, without BERT", "bert_fused": "with BERT"}
_COLOURS = {"transformer": "#999999", "continued": "#d95f02", "bert_fused": "#1b66a8"}


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
