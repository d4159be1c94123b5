"""The places of the lines, ticks and dots of a chart; the page's template draws them as SVG.

matplotlib chooses the ticks but does not draw: its SVG has fixed colours, fonts and sizes, while the drawings of the
page follow the reader's light or dark scheme, stretch with the window, and are read out by screen readers.
"""

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from matplotlib.ticker import MaxNLocator

from bert_fused_plugin.reports.training_log import Points

WIDTH, HEIGHT = 360, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 42, 10, 10, 30


@dataclass
class Tick:
    """A tick of an axis: its place in the drawing, and its text."""

    place: float
    text: str


@dataclass
class Chart:
    """A chart of lines in a drawing of `WIDTH` x `HEIGHT`.

    Args:
        title: text above the chart.
        lines: for each run, the points of a polyline, as SVG writes them.
        dots: for each run whose curve has one point only, the place of that point.
        x_ticks: ticks of the updates.
        y_ticks: ticks of the values.
        last: for each run, the last value.
    """

    title: str
    lines: Dict[str, str]
    dots: Dict[str, Tuple[float, float]]
    x_ticks: List[Tick]
    y_ticks: List[Tick]
    last: Dict[str, float]
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM


def line_chart(title: str, curves: Dict[str, Points]) -> Optional[Chart]:
    """Return the chart of the *curves*, which are given by run; None if all of them are empty."""
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

    return Chart(
        title,
        {name: " ".join("{},{}".format(*place(x, y)) for x, y in points) for name, points in curves.items()},
        {name: place(*points[0]) for name, points in curves.items() if len(points) == 1},
        [Tick(place(x, y_ticks[0])[0], f"{x:,.0f}") for x in x_ticks],
        [Tick(place(x_ticks[0], y)[1], f"{y:g}") for y in y_ticks],
        {name: points[-1][1] for name, points in curves.items()},
    )


def _ticks(values: List[float], count: int, integer: bool = False) -> List[float]:
    low, high = min(values), max(values)
    if low == high:
        margin = max(0.5, abs(low) / 20)
        low, high = low - margin, high + margin
    ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10], integer=integer, min_n_ticks=1).tick_values(low, high)
    return [round(float(tick), 10) for tick in ticks]
