import pytest

from bert_fused_plugin.data import work_progress
from bert_fused_plugin.data.work_progress import progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the test sets: clock[0]."""
    seconds = [100.0]
    monkeypatch.setattr(work_progress.time, "monotonic", lambda: seconds[0])
    return seconds


def test_each_tenth_has_a_line_with_the_time_to_go(caplog, clock):
    caplog.set_level("INFO")
    with progress("walk", 2000, "steps", logged=True) as shown:
        shown.begin_at(1000)  # which another process did, in unknown time
        for seconds, done in ((2, 1005), (10, 1200), (15, 1250), (9000, 1450), (9900, 1900)):
            clock[0] = 100 + seconds
            shown.reach(done)
        shown.reach(1850)  # never back
        shown.advance(200)  # never too much
    assert caplog.messages == [
        "walk: 60 % of 2,000 steps, 40 s to go",
        "walk: 72 % of 2,000 steps, 3 hours to go",
        "walk: 95 % of 2,000 steps, 18 minutes to go",
        "walk: 100 % of 2,000 steps",
    ]


def test_a_short_work_says_nothing(caplog, capfd):
    caplog.set_level("INFO")
    with progress("walk", 10, "steps", logged=False) as shown:
        shown.advance(10)
    assert not caplog.messages
    assert capfd.readouterr().err == ""
