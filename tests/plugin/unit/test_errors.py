import io
import logging
import sys
import traceback
from argparse import Namespace

import pytest
from helpers import GRU_SIZES, translation_task
from torch.multiprocessing import ProcessRaisedException

from bert_fused_plugin import progress, setup_messages
from bert_fused_plugin.errors import BertFusedError, install_excepthook
from bert_fused_plugin.progress import Progress
from bert_fused_plugin.setup_messages import REPEAT

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
    error.__suppress_context__ = cause is not None
    return error


def on_each_device(*errors):
    """Return *errors*, and what torch raises if processes that it started, one for each GPU, end with them."""
    traces = ["".join(traceback.format_exception(type(error), error, None)) for error in errors]
    words = "\n\n-- Process 1 terminated with the following error:\n"
    return [*errors, *(ProcessRaisedException(f"{words}{trace}", 1, 2) for trace in traces)]


@pytest.mark.parametrize(
    "error",
    on_each_device(
        OURS,
        chained(Exception("Cannot load model parameters from checkpoint x.pt; ..."), OURS),  # by fairseq's trainer
        chained(RuntimeError("the model cannot be built"), OURS, OURS),
    ),
)
def test_our_errors_are_printed_without_a_trace(monkeypatch, capsys, error):
    err, host = shown(monkeypatch, capsys, error)
    assert err.splitlines() == [
        "bert_fused_plugin: error: --a must be 1, got 2",
        "bert_fused_plugin: error: --b must be 3, got 4",
    ]
    assert not host


@pytest.mark.parametrize(
    "error",
    on_each_device(
        KeyError("x"), chained(OSError("no file"), OURS), chained(KeyError("x"), OURS, OSError("a full disk"))
    ),
)
def test_other_errors_are_left_to_the_host(monkeypatch, capsys, error):
    assert shown(monkeypatch, capsys, error) == ("", True)


# --- progress, with and without a terminal


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


# --- what matters of a set-up is said once more before training begins, and only once


LOGGER = logging.getLogger("bert_fused_plugin.somewhere")


def said_again(caplog):
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "bert_fused_plugin.setup_messages"]


def test_warnings_and_marked_messages_come_once_more_in_their_order(caplog):
    setup_messages.collect()
    LOGGER.warning("first")
    LOGGER.info("not marked")
    LOGGER.info("marked", extra=REPEAT)
    LOGGER.warning("first")
    LOGGER.error("last")
    logging.getLogger("fairseq.somewhere").warning("of others")
    setup_messages.end(repeat=True)
    assert said_again(caplog) == [
        ("WARNING", "said at set-up: first"),
        ("INFO", "said at set-up: marked"),
        ("ERROR", "said at set-up: last"),
    ]
    caplog.clear()
    LOGGER.warning("while training")
    setup_messages.end(repeat=True)
    assert said_again(caplog) == []


def test_a_second_task_leaves_what_was_said_of_the_first(dictionary, caplog):
    handlers = len(logging.getLogger("bert_fused_plugin").handlers)
    tasks = []
    for number in range(3):
        tasks.append(translation_task(dictionary))
        LOGGER.warning(f"of task {number}")
    assert len(logging.getLogger("bert_fused_plugin").handlers) <= handlers + 1
    for epoch in (1, 2):
        tasks[-1].begin_epoch(epoch, None)
    assert said_again(caplog) == [("WARNING", "said at set-up: of task 2")]


def test_nothing_is_kept_where_no_training_follows(dictionary, caplog):
    task = translation_task(dictionary)
    LOGGER.warning("seen")
    args = Namespace(**GRU_SIZES, arch="gru_dot")
    task.build_model(args, from_checkpoint=True)
    assert setup_messages._collector not in logging.getLogger("bert_fused_plugin").handlers
    task.begin_epoch(1, None)
    assert said_again(caplog) == []
