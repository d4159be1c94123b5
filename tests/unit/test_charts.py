"""Ticks, lines and dots of the charts."""

import pytest

from bert_fused_plugin.reports.charts import HEIGHT, WIDTH, line_chart


@pytest.mark.parametrize(
    "points",
    [[(1240, 3.0)], [(1, 2.0), (2, 2.5)], [(5, 0.0)], [(0, 1e20)], [(1, 3.0), (4, -2.0)], [(7, 1.0), (8, 1.0)]],
)
def test_each_mark_of_an_axis_has_a_text_of_its_own(points):
    chart = line_chart("title", {"a": points})
    for ticks in (chart["x_ticks"], chart["y_ticks"]):
        texts = [tick["text"] for tick in ticks]
        assert len(set(texts)) == len(texts) > 1
    places = [float(tick["text"].replace(",", "")) for tick in chart["x_ticks"]]
    assert places[0] <= points[0][0] <= points[-1][0]
    assert all(place == int(place) for place in places)


def test_a_curve_of_one_point_is_a_dot():
    chart = line_chart("title", {"a": [(10, 3.0), (500, -2.0)], "b": [(10, 3.0)]})
    assert list(chart["dots"]) == ["b"]
    assert "{},{}".format(*chart["dots"]["b"]) == chart["lines"]["a"].split()[0]


def test_a_chart_is_inside_its_drawing():
    chart = line_chart("title", {"a": [(10, 3.0), (500, -2.0)], "b": [(20, 3.0)], "none": []})
    assert list(chart["lines"]) == ["a", "b"]
    points = [tuple(map(float, point.split(","))) for line in chart["lines"].values() for point in line.split()]
    assert all(chart["left"] <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert points[0][0] < points[1][0]
    assert points[0][1] < points[1][1]  # y grows downwards
    assert chart["last"] == {"a": -2.0, "b": 3.0}
    assert line_chart("title", {"none": []}) is None
    assert line_chart("flat", {"a": [(5, 1.0)]}) is not None
