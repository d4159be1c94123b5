"""What matters of the log of a set-up, said once more just before a training begins.

While a training is set up, fairseq logs its whole configuration and every module of the model, hundreds of lines
in which a warning is easily missed.
"""

import logging
from typing import Dict

logger = logging.getLogger(__name__)

REPEAT = {"bert_fused_repeat": True}
"""The ``extra`` of a message that is no warning and is said once more too."""

_PACKAGE = "bert_fused_plugin"


class SetupMessages(logging.Handler):
    """Collects the warnings of the package, and the messages that `REPEAT` marks, from `collect` to `repeat`."""

    def __init__(self) -> None:
        super().__init__()
        self._levels: Dict[str, int] = {}  # by message, in their order, each once

    @classmethod
    def collect(cls) -> "SetupMessages":
        """Return a new collector, which takes the place of the one before: a process sets up one task at a time."""
        package = logging.getLogger(_PACKAGE)
        for handler in [handler for handler in package.handlers if isinstance(handler, cls)]:
            package.removeHandler(handler)
        collector = cls()
        package.addHandler(collector)
        return collector

    def emit(self, record: logging.LogRecord) -> None:
        """Keep *record* if it matters."""
        if record.levelno >= logging.WARNING or REPEAT.keys() <= vars(record).keys():
            self._levels.setdefault(record.getMessage(), record.levelno)

    def repeat(self) -> None:
        """Log once more what was collected, and collect no more."""
        collected = dict(self._levels)
        self.forget()
        for message, level in collected.items():
            logger.log(level, f"said at set-up: {message}")

    def forget(self) -> None:
        """Collect no more, and keep nothing."""
        logging.getLogger(_PACKAGE).removeHandler(self)
        self._levels.clear()
