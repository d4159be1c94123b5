"""fairseq's commands in the process of the tests: their own entry points, without the seconds of a start."""

import importlib
import io
import sys
from contextlib import redirect_stdout
from unittest.mock import patch

from fairseq import checkpoint_utils


def command(name: str, *args: object, text: str = "") -> str:
    """Run ``fairseq-{name}`` on *args*, with *text* as its standard input, and return what it printed."""
    module = importlib.import_module(f"fairseq_cli.{name}")
    vars(checkpoint_utils.save_checkpoint).clear()  # the best score of an earlier training in this process
    out = io.StringIO()
    argv = [f"fairseq-{name}", *map(str, args)]
    with patch.object(sys, "argv", argv), patch.object(sys, "stdin", io.StringIO(text)), redirect_stdout(out):
        module.cli_main()
    return out.getvalue()
