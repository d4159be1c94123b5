"""The places of the lines, ticks and dots of a chart; the page's template draws them as SVG.

matplotlib chooses the ticks but does not draw: its SVG has fixed colours, fonts and sizes, while the drawings of the
page follow the reader's light or dark scheme, stretch with the window, and are read out by screen readers.
"""

from typing import Any, Dict, List, Optional, Tuple

from matplotlib.ticker import MaxNLocator

from bert_fused_plugin.reports.training_log import Points

WIDTH, HEIGHT = 360, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 42, 10, 10, 30


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
