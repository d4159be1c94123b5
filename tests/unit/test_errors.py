import sys

import pytest

from bert_fused_plugin.errors import BertFusedError, install_excepthook, raise_all


def shown(monkeypatch, capsys, raiser):
    """Return what the hooked interpreter prints for the error of *raiser*, and whether the host's hook was called."""
    called = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: called.append(error))
    install_excepthook()
    try:
        raiser()
    except Exception:
        sys.excepthook(*sys.exc_info())
    return capsys.readouterr().err, bool(called)


def ours():
    raise_all(["--a must be 1, got 2", "--b must be 3, got 4"])


def replaced_by_the_host():
    try:
        ours()
    except Exception:
        raise Exception("Cannot load model parameters from checkpoint") from None


def foreign():
    raise KeyError("x")


@pytest.mark.parametrize("raiser", [ours, replaced_by_the_host])
def test_our_errors_are_printed_without_a_trace(monkeypatch, capsys, raiser):
    err, host = shown(monkeypatch, capsys, raiser)
    assert err.splitlines() == [
        "bert_fused_plugin: error: --a must be 1, got 2",
        "bert_fused_plugin: error: --b must be 3, got 4",
    ]
    assert not host


def test_other_errors_are_left_to_the_host(monkeypatch, capsys):
    assert shown(monkeypatch, capsys, foreign) == ("", True)


def test_no_errors_raise_nothing():
    raise_all([])
    with pytest.raises(BertFusedError, match="one"):
        raise_all(["one"])
