"""Curves from logs, charts, and how files are written."""

import os
import re
from pathlib import Path

import pytest

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.reports.charts import HEIGHT, WIDTH, line_chart
from bert_fused_plugin.reports.page import check_writable, write_together
from bert_fused_plugin.reports.training_log import read_curves

SIMPLE = """\
2026-01-01 10:00:00 | INFO | train_inner | epoch 001:     10 / 31 loss=12.7, nll_loss=12.5, ppl=6104.9, wps=4180.9, num_updates=10, lr=0.0004
2026-01-01 10:00:01 | INFO | train_inner | epoch 001:     20 / 31 loss=11, nll_loss=10.25, ppl=1e+03, num_updates=20, lr=8e-05
2026-01-01 10:00:02 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.14 | nll_loss 9.1 | ppl 9 | bleu 1.5 | wps 0 | num_updates 31
2026-01-01 10:00:03 | INFO | train | epoch 001 | loss 11.2 | nll_loss 10.9 | num_updates 31 | lr 0.00124
2026-01-01 10:00:04 | INFO | valid | epoch 002 | valid on 'valid' subset | loss 8 | nll_loss 7.9 | bleu 2 | num_updates 62 | best_loss 8
2026-01-01 10:00:04 | INFO | fairseq_cli.train | done training in 3.0 seconds
"""  # noqa: E501
JSON = """\
2026-01-01 10:00:00 | INFO | train_inner | {"epoch": 1, "update": 0.3, "loss": "12.7", "nll_loss": "12.5", "num_updates": "10"}
2026-01-01 10:00:01 | INFO | train_inner | {"epoch": 1, "update": 0.6, "loss": "11", "nll_loss": "10.25", "num_updates": "20"}
2026-01-01 10:00:02 | INFO | valid | {"epoch": 1, "valid_loss": "9.14", "valid_nll_loss": "9.1", "valid_bleu": "1.5", "valid_num_updates": "31"}
2026-01-01 10:00:02 | INFO | valid | {"epoch": 2, "valid_loss": "8", "valid_nll_loss": "7.9", "valid_bleu": "2", "valid_num_updates": "62"}
2026-01-01 10:00:02 | INFO | valid | {"epoch": 3, "valid_loss": "8
"""  # noqa: E501
CURVES = {
    "train loss": [(10, 12.7), (20, 11.0)],
    "train nll_loss": [(10, 12.5), (20, 10.25)],
    "valid loss": [(31, 9.14), (62, 8.0)],
    "valid nll_loss": [(31, 9.1), (62, 7.9)],
    "valid bleu": [(31, 1.5), (62, 2.0)],
}


@pytest.mark.parametrize("text", [SIMPLE, JSON])
def test_curves_of_both_formats(tmp_path, text):
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    assert read_curves([tmp_path / "train.log"]) == CURVES


def test_a_resumed_run_and_a_damaged_log(tmp_path):
    (tmp_path / "1.log").write_bytes(SIMPLE.encode() + b"\xff\xfe nothing")
    (tmp_path / "2.log").write_text(SIMPLE.replace("loss 8 ", "loss 7 "), encoding="utf-8")
    assert read_curves([tmp_path / "1.log", tmp_path / "2.log"])["valid loss"] == [(31, 9.14), (62, 7.0)]
    assert read_curves([]) == {}


def test_epochs_stand_in_where_no_interval_was_logged(tmp_path):
    lines = [line for line in SIMPLE.splitlines() if "train_inner" not in line]
    (tmp_path / "train.log").write_text("\n".join(lines), encoding="utf-8")
    assert read_curves([tmp_path / "train.log"])["train loss"] == [(31, 11.2)]


@pytest.mark.parametrize("text", [SIMPLE, JSON])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_values_that_are_no_numbers_are_left_out(tmp_path, text, value):
    for good in ("12.5", "9.1"):
        text = re.sub(rf"(nll_loss\W+){good}", rf"\g<1>{value}", text)
    text = re.sub(r"(num_updates\W+)62", rf"\g<1>{value}", text)
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    curves = read_curves([tmp_path / "train.log"])
    assert curves["train nll_loss"] == CURVES["train nll_loss"][1:]
    assert curves["train loss"] == CURVES["train loss"]
    assert curves["valid loss"] == CURVES["valid loss"][:1]
    assert "valid nll_loss" not in curves


@pytest.mark.parametrize(
    "points",
    [[(1240, 3.0)], [(1, 2.0), (2, 2.5)], [(5, 0.0)], [(0, 1e20)], [(1, 3.0), (4, -2.0)], [(7, 1.0), (8, 1.0)]],
)
def test_each_mark_of_an_axis_has_a_text_of_its_own(points):
    chart = line_chart("title", {"a": points})
    for ticks in (chart.x_ticks, chart.y_ticks):
        texts = [tick.text for tick in ticks]
        assert len(set(texts)) == len(texts) > 1
    places = [float(tick.text.replace(",", "")) for tick in chart.x_ticks]
    assert places[0] <= points[0][0] <= points[-1][0]
    assert all(place == int(place) for place in places)


def test_a_curve_of_one_point_is_a_dot():
    chart = line_chart("title", {"a": [(10, 3.0), (500, -2.0)], "b": [(10, 3.0)]})
    assert list(chart.dots) == ["b"]
    assert "{},{}".format(*chart.dots["b"]) == chart.lines["a"].split()[0]


def test_a_chart_is_inside_its_drawing():
    chart = line_chart("title", {"a": [(10, 3.0), (500, -2.0)], "b": [(20, 3.0)], "none": []})
    assert list(chart.lines) == ["a", "b"]
    points = [tuple(map(float, point.split(","))) for line in chart.lines.values() for point in line.split()]
    assert all(chart.left <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert points[0][0] < points[1][0]
    assert points[0][1] < points[1][1]  # y grows downwards
    assert chart.last == {"a": -2.0, "b": 3.0}
    assert line_chart("title", {"none": []}) is None
    assert line_chart("flat", {"a": [(5, 1.0)]}) is not None


def test_files_are_written_together_or_not_at_all(tmp_path):
    first, second = tmp_path / "a.html", tmp_path / "a.json"
    first.write_text("old", encoding="utf-8")
    write_together({first: "new", second: "{}"})
    assert (first.read_text(), second.read_text()) == ("new", "{}")
    with pytest.raises(BertFusedError, match=r"a\.html, .*missing.*cannot be written"):
        write_together({first: "newer", tmp_path / "missing" / "b": "{}"})
    assert first.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["a.html", "a.json"]


def test_what_cannot_be_written_is_told_at_the_start(tmp_path):
    check_writable([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(BertFusedError) as refused:
        check_writable([tmp_path, tmp_path / "missing" / "b"])
    assert len(refused.value.errors) == 2
    assert "is a directory" in refused.value.errors[0]
    assert str(Path("missing", "b")) in refused.value.errors[1]
    with pytest.raises(BertFusedError, match="the same file"):
        check_writable([tmp_path / "a", tmp_path / "." / "a"])
