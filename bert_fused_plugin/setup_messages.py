"""What matters of the log of a set-up, said again before a training, since fairseq logs hundreds of lines between."""

import logging
from logging.handlers import BufferingHandler

logger = logging.getLogger(__name__)

REPEAT = {"bert_fused_repeat": True}
"""The ``extra`` of a message that is no warning and is said once more too."""


_collector = BufferingHandler(capacity=10_000)  # more messages than any set-up has
_collector.addFilter(lambda record: record.levelno >= logging.WARNING or REPEAT.keys() <= vars(record).keys())


def collect() -> None:
    """Collect messages from now on, and none of before: a process sets up one task at a time."""
    _collector.flush()
    logging.getLogger("bert_fused_plugin").addHandler(_collector)


def end(repeat: bool) -> None:
    """Collect no more; with *repeat*, log once more what was collected."""
    logging.getLogger("bert_fused_plugin").removeHandler(_collector)
    levels = {record.getMessage(): record.levelno for record in _collector.buffer if repeat}  # each message once
    for message, level in levels.items():
        logger.log(level, f"said at set-up: {message}")
    _collector.flush()
