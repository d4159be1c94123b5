"""What the log says while the cache is built."""

import itertools
import time

import numpy as np

from bert_fused_plugin.data.cache_building import progress_towards


def messages(caplog, monkeypatch, seconds, sizes, total):
    caplog.set_level("INFO")
    clock = itertools.count(100, seconds)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with progress_towards(total) as progress:
        batches = [np.zeros((size, 2)) for size in sizes]
        assert [len(states) for states in progress.counted(batches)] == sizes
    return caplog.messages


def test_the_first_batches_say_how_long_the_others_take(caplog, monkeypatch):
    """1,000 word pieces in the second and the third batch together, from the end of the first to that of the third."""
    found = messages(caplog, monkeypatch, 50, [300, 600, 400, 500], 151_300)
    assert found == [
        "BERT cache: this process computes 20 word pieces a second, and would take 2 h 05 min for the 150,000 that "
        "are left; processes that work on the same cache share them"
    ]


def test_a_short_work_shows_its_tenths_alone(caplog, monkeypatch):
    found = messages(caplog, monkeypatch, 0.001, [5, 5, 5, 5], 20)
    assert found == [f"BERT cache: {percent} % of 20 word pieces" for percent in (25, 50, 75, 100)]
