"""The trainings of one part of the evidence, as benchmarks/evidence.sh and evidence_multi30k.sh leave them."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from bert_fused_plugin.reports.training_log import Points, read_curves

SYSTEMS = ("transformer", "continued", "bert_fused")
_NAMES = {"long": "160,000 pairs, long training", "multi30k": "Multi30k, long training"}


class Part:
    """The trainings of one part.

    Args:
        folder: what benchmarks/evidence.sh has made for it.

    Attributes:
        name: what tables and pictures call it: the number of sentence pairs in words, or its name.
        seed: seed of the trainings.
        pairs: number of sentence pairs; None for a part with a name, which is no point of the curve over them.
        runs: what the report says, by system.
        buckets: BLEU by length and by rare words, as in the report.
        bert_tests: BLEU of the BERT-fused model by the name of the test, such as ``shuffled``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        name, seed = folder.name.rsplit("-", 1)
        self.seed = int(seed)
        self.pairs = int(name) if name.isdigit() else None
        self.name = _NAMES.get(name, name) if self.pairs is None else f"{self.pairs:,} pairs"
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        self.runs = {run["name"]: run for run in report["runs"]}
        self.buckets: Dict[str, Any] = report["buckets"]
        self.bert_tests = {
            state["name"]: state["scores"]["BLEU"]["score"]
            for test in report["bert_tests"] if test["run"] == "bert_fused" for state in test["states"]
        }  # fmt: skip

    def score(self, system: str, metric: str) -> Tuple[float, float, Optional[float]]:
        """Return the score, half of its interval, and p against the control."""
        found = self.runs[system]["scores"][metric]
        return found["score"], found["interval"], found["p"]

    def log(self, system: str) -> str:
        return (self.folder / f"{system}.log").read_text(encoding="utf-8", errors="replace")

    def curve(self, system: str, meter: str) -> Points:
        """Return (updates, value) on the validation set."""
        return read_curves([self.folder / f"{system}.log"])[f"valid {meter}"]

    def updates(self, system: str) -> str:
        """Return the updates of the training, those of the transformer that it began from first."""
        begun = [str(run["updates"]) for run in self.runs[system]["began_from"]]
        return " + ".join([*begun, str(self.curve(system, "nll_loss")[-1][0])])

    def seconds_of_update(self, system: str) -> float:
        """Return the time of an update in the fastest tenth of the log, which other work has disturbed least."""
        speeds = sorted(float(value) for value in re.findall(r"train_inner \|.* ups=([\d.]+)", self.log(system)))
        return 1 / speeds[int(0.9 * len(speeds))]

    def seconds_of_states(self) -> float:
        """Return the time in which BERT's states were computed; 0 if they were there."""
        began = None
        total = 0.0
        for line in self.log("bert_fused").splitlines():
            if re.search(r"\d new sentences of", line):
                began = _time(line)
            elif began is not None and "BERT cache: " in line:  # also of a pass that was interrupted
                total += (_time(line) - began).total_seconds()
                began = _time(line)
        return total

    def epochs(self, system: str) -> float:
        """Return how often the training has read the corpus."""
        found = re.findall(r"train_inner \| epoch (\d+): +(\d+) / (\d+) ", self.log(system))
        epoch, batch, batches = (int(number) for number in found[-1])
        return epoch - 1 + batch / batches


def _time(line: str) -> datetime:
    return datetime.strptime(line[:19], "%Y-%m-%d %H:%M:%S")
