import sys

import pytest

from bert_fused_plugin.errors import BertFusedError, install_excepthook

OURS = BertFusedError("--a must be 1, got 2", "--b must be 3, got 4")


def shown(monkeypatch, capsys, error):
    """Return what the hooked interpreter prints for *error*, and whether the host's hook was called."""
    called = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: called.append(error))
    install_excepthook()
    sys.excepthook(type(error), error, None)
    return capsys.readouterr().err, bool(called)


def chained(error, context, cause=None):
    """Return *error* as raised while *context* is handled, and ``from`` *cause*."""
    error.__context__, error.__cause__ = context, cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        OURS,
        chained(Exception("Cannot load model parameters from checkpoint x.pt; ..."), OURS),  # by fairseq's trainer
        chained(RuntimeError("the model cannot be built"), OURS, OURS),
    ],
)
def test_our_errors_are_printed_without_a_trace(monkeypatch, capsys, error):
    err, host = shown(monkeypatch, capsys, error)
    assert err.splitlines() == [
        "bert_fused_plugin: error: --a must be 1, got 2",
        "bert_fused_plugin: error: --b must be 3, got 4",
    ]
    assert not host


@pytest.mark.parametrize(
    "error", [KeyError("x"), chained(OSError("no file"), OURS), chained(KeyError("x"), OURS, OSError("a full disk"))]
)
def test_other_errors_are_left_to_the_host(monkeypatch, capsys, error):
    assert shown(monkeypatch, capsys, error) == ("", True)
