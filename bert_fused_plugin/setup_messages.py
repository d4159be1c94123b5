"""What matters of the log of a set-up, said once more just before a training begins.

In between, fairseq logs its configuration and all modules, hundreds of lines in which a warning is easily missed.
"""

import logging
from typing import Dict

logger = logging.getLogger(__name__)

REPEAT = {"bert_fused_repeat": True}
"""The ``extra`` of a message that is no warning and is said once more too."""


class _Collector(logging.Handler):
    """The warnings of the package, and the messages that `REPEAT` marks."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: Dict[str, int] = {}  # by message, in their order, each once

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or REPEAT.keys() <= vars(record).keys():
            self.levels.setdefault(record.getMessage(), record.levelno)


_collector = _Collector()


def collect() -> None:
    """Collect messages from now on, and none of before: a process sets up one task at a time."""
    _collector.levels.clear()
    logging.getLogger("bert_fused_plugin").addHandler(_collector)


def end(repeat: bool) -> None:
    """Collect no more; with *repeat*, log once more what was collected."""
    logging.getLogger("bert_fused_plugin").removeHandler(_collector)
    for message, level in _collector.levels.items() if repeat else ():
        logger.log(level, f"said at set-up: {message}")
    _collector.levels.clear()
