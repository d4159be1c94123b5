import sys
from pathlib import Path

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
    """As fairseq's trainer does."""
    try:
        ours()
    except Exception:
        raise Exception("Cannot load model parameters from checkpoint x.pt; please ensure that ...")  # noqa: B904


def the_cause():
    try:
        ours()
    except ValueError as error:
        raise RuntimeError("the model cannot be built") from error


def foreign():
    raise KeyError("x")


def foreign_while_ours_is_handled():
    try:
        ours()
    except ValueError:
        Path("/no/such/file").read_text(encoding="utf-8")


def foreign_after_ours():
    try:
        ours()
    except ValueError:
        raise KeyError("x") from None


def foreign_for_another_reason():
    try:
        ours()
    except ValueError:
        raise KeyError("x") from OSError("a full disk")


@pytest.mark.parametrize("raiser", [ours, replaced_by_the_host, the_cause])
def test_our_errors_are_printed_without_a_trace(monkeypatch, capsys, raiser):
    err, host = shown(monkeypatch, capsys, raiser)
    assert err.splitlines() == [
        "bert_fused_plugin: error: --a must be 1, got 2",
        "bert_fused_plugin: error: --b must be 3, got 4",
    ]
    assert not host


@pytest.mark.parametrize(
    "raiser", [foreign, foreign_while_ours_is_handled, foreign_after_ours, foreign_for_another_reason]
)
def test_other_errors_are_left_to_the_host(monkeypatch, capsys, raiser):
    assert shown(monkeypatch, capsys, raiser) == ("", True)


def test_no_errors_raise_nothing():
    raise_all([])
    with pytest.raises(BertFusedError, match="one"):
        raise_all(["one"])
