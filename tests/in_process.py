"""fairseq's commands in the process of the tests: their own entry points, without the seconds of a start."""

import importlib
import io
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from unittest.mock import patch

from fairseq import checkpoint_utils
from fairseq.logging import progress_bar


def command(name: str, *args: object, text: str = "") -> str:
    """Run ``fairseq-{name}`` on *args*, with *text* as its standard input, and return what it printed.

    Without workers, whose end the next command in the process would wait five seconds for.
    """
    module = importlib.import_module(f"fairseq_cli.{name}")
    vars(checkpoint_utils.save_checkpoint).clear()  # the best score of an earlier training in this process
    progress_bar._close_writers()  # the curves of an earlier training
    progress_bar._tensorboard_writers.clear()
    out = io.StringIO()
    argv = [f"fairseq-{name}", *map(str, args), *(["--num-workers", "0"] if name in ("generate", "train") else [])]
    with patch.object(sys, "argv", argv), patch.object(sys, "stdin", io.StringIO(text)), redirect_stdout(out):
        module.cli_main()
    return out.getvalue()


class Printed:
    """What fairseq-generate printed: ``out.all("H")[7]`` holds the fields of each H line of sentence 7, best first."""

    def __init__(self, text: str) -> None:
        self.text = text

    def all(self, kind: str):
        rows = defaultdict(list)
        for line in self.text.split("\n"):
            if line.startswith(f"{kind}-"):
                number, *fields = line.split("\t")
                rows[int(number[2:])].append(fields)
        return dict(sorted(rows.items()))

    def tokens(self, kind: str = "H"):
        """The words of each sentence's best line."""
        return {number: text.split() for number, text in self.best(kind).items()}

    def scores(self):
        return {number: float(lines[0][0]) for number, lines in self.all("H").items()}

    def positional(self):
        """The log-probability, base 2, of each token of the best hypothesis, eos too."""
        return {number: [float(x) for x in lines[0][0].split()] for number, lines in self.all("P").items()}

    def best(self, kind: str):
        """The last field of each sentence's best line: its text, its alignment."""
        return {number: lines[0][-1] for number, lines in self.all(kind).items()}
