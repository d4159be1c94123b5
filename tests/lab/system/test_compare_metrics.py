"""Texts for the metrics of other programs, and the scores that these gave."""

import re

import pytest
from workspace import reported

from bert_fused_lab.output import write_lines
from bert_fused_lab.report.page import render


def test_no_text_ends_its_line(tmp_path):
    write_lines(tmp_path / "x.txt", ["a\u2028b \r c", "f\x0bg  h\x85"])
    assert (tmp_path / "x.txt").read_text(encoding="utf-8") == "a b c\nf g h\n"


def test_scores_of_other_metrics_are_tested_too(workspace, plain, tmp_path):
    """Lower is better for errors, whose gain is then a loss."""
    for name, mean in (("plain.1", 5), ("fused.1", 4), ("fused.2", 3.999)):
        numbers = [mean + (i % 3) / 10 for i in range(30)]
        (tmp_path / f"test.{name}.x").write_text("".join(f"{number}\n" for number in numbers), encoding="utf-8")
    given = f"{tmp_path}/{{subset}}.{{system}}.{{seed}}.x"
    runs = f"plain={plain}", f"fused={workspace.save_dir},{workspace.checkpoint}"
    report = reported(workspace.data, *runs, more=["--error-scores", f"MetricX={given}", "--scores", f"COMET={given}"])
    plain_scores, fused = (system["scores"] for system in report["systems"])
    assert list(fused) == list(report["signatures"]) == ["BLEU", "chrF", "TER", "COMET", "MetricX"]
    assert plain_scores["COMET"]["score"] == pytest.approx(5.1)
    assert fused["COMET"]["seeds"] == pytest.approx([4.1, 4.099])
    assert fused["MetricX"]["gain"] == pytest.approx(-1.0005)
    assert fused["MetricX"]["p"] == fused["COMET"]["p"] == pytest.approx(1 / 101)
    assert fused["MetricX"]["p_seeds"] == pytest.approx([1 / 101] * 2)
    assert (fused["COMET"]["better"], fused["MetricX"]["better"]) == (-1, 1)
    assert f"mean of {given}" in report["signatures"]["COMET"]
    page = render(report)
    assert re.findall(r"MetricX<small> mean, ↓|TER<small> %, ↓|COMET<small> mean<", page) == [
        "TER<small> %, ↓", "COMET<small> mean<", "MetricX<small> mean, ↓"
    ]  # fmt: skip
    assert '<td class="number up">4.0995<small>' in page
    assert "<li>By COMET, fused is worse than plain: -1.0005 (95 % interval -" in page
    assert re.search(r"By MetricX, fused is better than plain: -1.0005 \(.*, p = 0.010; lower is better\)\.", page)
