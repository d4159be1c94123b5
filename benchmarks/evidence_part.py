"""The figures of one part of the evidence: read from what benchmarks/evidence*.sh leave, or from a file of figures."""

import json
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from bert_fused_plugin.reports.training_log import Points, read_curves

SYSTEMS = ("transformer", "continued", "bert_fused")
_NAMES = {"long": "160,000 pairs, long training", "multi30k": "Multi30k, long training"}
_OF_REPORT = ("sentences", "decoding", "hardware", "baseline", "signatures", "buckets", "bert_tests")
_OF_RUN = ("name", "architecture", "updates", "parameters", "scores", "length", "entropy", "alphas")


class Part:
    """The trainings of one part.

    Args:
        figures: what `figures_of` returns.

    Attributes:
        figures: the same.
        name: what tables and pictures call it: the number of sentence pairs in words, or its name.
        seed: seed of the trainings.
        pairs: number of sentence pairs; None for a part with a name, which is no point of the curve over them.
        runs: what the report and the logs say, by system.
        buckets: BLEU by length and by rare words, as in the report.
        bert_tests: BLEU of the BERT-fused model by the name of the test, such as ``shuffled``.
    """

    def __init__(self, figures: Dict[str, Any]) -> None:
        self.figures = figures
        name, seed = figures["part"].rsplit("-", 1)
        self.seed = int(seed)
        self.pairs = int(name) if name.isdigit() else None
        self.name = _NAMES.get(name, name) if self.pairs is None else f"{self.pairs:,} pairs"
        self.runs = {run["name"]: run for run in figures["runs"]}
        self.buckets: Dict[str, Any] = figures["buckets"]
        self.bert_tests = {
            state["name"]: state["scores"]["BLEU"]["score"]
            for test in figures["bert_tests"] if test["run"] == "bert_fused" for state in test["states"]
        }  # fmt: skip

    def score(self, system: str, metric: str) -> Tuple[float, float, Optional[float]]:
        """Return the score, half of its interval, and p against the control."""
        found = self.runs[system]["scores"][metric]
        return found["score"], found["interval"], found["p"]

    def curve(self, system: str, meter: str) -> Points:
        """Return (updates, value) on the validation set."""
        return [(updates, value) for updates, value in self.runs[system]["curves"][f"valid {meter}"]]

    def updates(self, system: str) -> str:
        """Return the updates of the training, those of the transformer that it began from first."""
        begun = map(str, self.runs[system]["began_from"])
        return " + ".join([*begun, str(self.curve(system, "nll_loss")[-1][0])])

    def seconds_of_update(self, system: str) -> float:
        """Return the time of an update in the fastest tenth of the log, which other work has disturbed least."""
        return self.runs[system]["seconds_of_update"]

    def seconds_of_states(self) -> float:
        """Return the time in which BERT's states were computed; 0 if they were there."""
        return self.runs["bert_fused"]["seconds_of_states"]

    def epochs(self, system: str) -> float:
        """Return how often the training has read the corpus."""
        return self.runs[system]["epochs"]


def read_parts(folder: Path) -> List[Part]:
    """Return the parts in *folder*, which holds their trainings, or files of figures, in the order of their sizes."""
    found = [Part(figures_of(path.parent)) for path in folder.glob("*-*/report.json")]
    found += [Part(json.loads(path.read_text(encoding="utf-8"))) for path in folder.glob("*-*.json")]
    return sorted(found, key=lambda part: (part.pairs or float("inf"), part.name, part.seed))


def figures_of(folder: Path) -> Dict[str, Any]:
    """Return the figures of the trainings in *folder*: those of its report and of its logs, without text and paths."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return {
        "part": folder.name,
        **{key: report[key] for key in _OF_REPORT},
        "runs": [
            {
                **{key: run[key] for key in _OF_RUN},
                "began_from": [origin["updates"] for origin in run["began_from"]],
                **_of_log(folder / f"{run['name']}.log"),
            }
            for run in report["runs"]
        ],
    }


def _of_log(path: Path) -> Dict[str, Any]:
    log = path.read_text(encoding="utf-8", errors="replace")
    speeds = sorted(float(value) for value in re.findall(r"train_inner \|.* ups=([\d.]+)", log))
    epoch, batch, batches = map(int, re.findall(r"train_inner \| epoch (\d+): +(\d+) / (\d+) ", log)[-1])
    return {
        "epochs": epoch - 1 + batch / batches,
        "seconds_of_update": 1 / speeds[int(0.9 * len(speeds))],
        "seconds_of_states": _seconds_of_states(log),
        "curves": read_curves([path]),
    }


def _seconds_of_states(log: str) -> float:
    found = re.findall(r"BERT cache: [\d,]+ word pieces in (\d+) s", log)
    return float(sum(map(int, found)))
