"""What the long commands say on stderr, with and without a terminal."""

import io
import sys

import pytest

from bert_fused_plugin import progress
from bert_fused_plugin.progress import Progress


def test_lines_without_a_terminal(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress("plain", 2000, "sentences", parts=3) as shown:
        for seconds, count in ((101, 100), (111, 100), (115, 200), (120, 100), (200, 500), (250, 1000)):
            now[0] = float(seconds)
            shown.update(count)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "plain: 2,000 sentences",
        "plain: 400 of 2,000 sentences after 00:15, about 01:00 are left",
        "plain: 1,000 of 2,000 sentences after 01:40, about 01:40 are left",
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
