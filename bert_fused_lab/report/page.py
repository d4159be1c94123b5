"""The report as an HTML page and as JSON.

The page's template draws the charts as SVG.  matplotlib chooses the ticks but does not draw: its SVG has fixed colours,
fonts and sizes, while the drawings of the page follow the reader's light or dark scheme, stretch with the window, and
are read out by screen readers.
"""

import json
from typing import Any, Dict, List, Mapping, Optional, Tuple

import sacrebleu
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from matplotlib.ticker import MaxNLocator

from bert_fused_lab.report.scoring import p_text
from bert_fused_lab.report.systems import Origin, described

Points = List[Tuple[int, float]]  # (updates, value)
FEW = 30  # BLEU says little about a group of fewer sentences
WIDTH, HEIGHT = 360, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 42, 10, 10, 30
_UNITS = {"BLEU": "points", "chrF": "points", "TER": "%"}  # of sacreBLEU's metrics
_CHARTS = {
    "valid bleu": "validation BLEU",
    "valid nll_loss": "validation nll_loss (bits)",
    "train nll_loss": "training nll_loss (bits)",
    "valid loss": "validation loss",
    "train loss": "training loss",
}


def render(report: Mapping[str, Any]) -> str:
    """Return the report as one HTML page, which needs no other file and no network."""
    runs, systems = report["runs"], report["systems"]
    charts = (
        line_chart(title, {name: curves.get(key, []) for name, curves in report["curves"].items()})
        for key, title in _CHARTS.items()
    )
    how: Dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    how.update(autoescape=select_autoescape(["html"]), undefined=StrictUndefined)
    environment = Environment(loader=PackageLoader("bert_fused_lab.report"), **how)
    environment.filters["p_text"] = p_text
    return environment.get_template("report.html").render(
        report,
        charts=list(filter(None, charts)),
        names=[system["name"] for system in systems],
        depth=max((len(layers) for run in runs for layers in run["entropy"].values()), default=0),
        several=len(systems) > 1,
        sacrebleu=sacrebleu.__version__,
        origins={run["name"]: described([Origin(**origin) for origin in run["began_from"]]) for run in runs},
        few=FEW,
        units=_UNITS,
        width=WIDTH,
        height=HEIGHT,
    )


def to_json(report: Mapping[str, Any]) -> str:
    """Return all figures of the report as JSON; drawings and the weights of the heat maps are left to the page."""
    attention = {
        number: [{key: value for key, value in attention_map.items() if key != "percent"} for attention_map in maps]
        for number, maps in report["attention"].items()
    }
    return json.dumps({**report, "attention": attention}, indent=1, ensure_ascii=False) + "\n"


def line_chart(title: str, curves: Dict[str, Points]) -> Optional[Dict[str, Any]]:
    """Return the chart of the *curves*, which are given by run; None if all of them are empty.

    It has the points of a polyline for each run, as SVG writes them, a dot for a run whose curve has one point only,
    the place and the text of each tick, and the last value of each run.
    """
    curves = {name: points for name, points in curves.items() if points}
    if not curves:
        return None
    x_ticks = _ticks([x for points in curves.values() for x, _ in points], 4, integer=True)
    y_ticks = _ticks([y for points in curves.values() for _, y in points], 5)

    def place(x: float, y: float) -> Tuple[float, float]:
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
        return round(_LEFT + across * width, 1), round(_TOP + (1 - up) * height, 1)

    placed = {name: [place(*point) for point in points] for name, points in curves.items()}
    return {
        "title": title,
        "lines": {name: " ".join("{},{}".format(*point) for point in points) for name, points in placed.items()},
        "dots": {name: points[0] for name, points in placed.items() if len(points) == 1},
        "x_ticks": [{"place": place(x, y_ticks[0])[0], "text": f"{x:,.0f}"} for x in x_ticks],
        "y_ticks": [{"place": place(x_ticks[0], y)[1], "text": f"{y:g}"} for y in y_ticks],
        "last": {name: points[-1][1] for name, points in curves.items()},
        "left": _LEFT,
        "right": WIDTH - _RIGHT,
        "bottom": HEIGHT - _BOTTOM,
    }


def _ticks(values: List[float], count: int, integer: bool = False) -> List[float]:
    low, high = min(values), max(values)
    if low == high:
        margin = max(0.5, abs(low) / 20)
        low, high = low - margin, high + margin
    ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10], integer=integer, min_n_ticks=1).tick_values(low, high)
    return [round(float(tick), 10) for tick in ticks]
