"""What the long commands say on stderr, with and without a terminal."""

import io
import sys

import pytest

from bert_fused_plugin import progress
from bert_fused_plugin.progress import Progress


def test_lines_without_a_terminal(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress("plain", 2000, "sentences", work=100.0) as shown:
        for seconds, count, work in ((101, 500, 10), (105, 100, 10), (110, 100, 10), (170, 300, 20), (250, 1000, 50)):
            now[0] = float(seconds)
            shown.update(count, work)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "plain: 2,000 sentences",
        "plain: 600 of 2,000 sentences after 00:05, about 00:20 are left",
        "plain: 1,000 of 2,000 sentences after 01:10, about 01:10 are left",
        "plain: 2,000 sentences in 150 s",
    ]


def broken_off():
    with Progress("plain", 3, "sentences") as shown:
        shown.update(1)
        raise ValueError("broken")


def test_work_that_breaks_off_has_no_last_line(capsys):
    with pytest.raises(ValueError, match="broken"):
        broken_off()
    assert capsys.readouterr().err == "plain: 3 sentences\n"


def test_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("plain", 3, "sentences") as shown:
        shown.update(3)
    written = sys.stderr.getvalue()
    assert "plain: 100%" in written
    assert " in 0 s" not in written
