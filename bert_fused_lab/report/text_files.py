"""Files for the metrics of other programs, and the scores that they gave: those of COMET, sacreBLEU, ..."""

from math import isfinite
from pathlib import Path
from typing import Callable, List, Mapping, Sequence

from bert_fused_lab.report.scoring import GivenScores, Systems
from bert_fused_plugin.errors import BertFusedError


def write_texts(folder: Path, subset: str, sources: Sequence[str], references: Sequence[str], systems: Systems) -> None:
    """Write a file of lines for each text of *subset* and for each seed of *systems*.

    All whitespace becomes single spaces: not all programs agree on what ends a line.
    """
    seeds = [(f"{subset}.{name}.{i}", texts) for name, seeds in systems for i, texts in enumerate(seeds, 1)]
    for name, texts in [(f"{subset}.source", sources), (f"{subset}.reference", references), *seeds]:
        lines = (" ".join(text.split()) + "\n" for text in texts)
        (folder / name).write_text("".join(lines), encoding="utf-8")


def read_scores(
    flag: str, metric: str, given: Path, seeds: Mapping[str, int], read: Callable[[str, Path], List[str]]
) -> GivenScores:
    """Return the scores of *metric* for all systems, of which *seeds* has the number of seeds.

    *given* has ``{system}`` and ``{seed}`` in the place of what the files' names differ in.  *read* returns the lines
    of a file, one for each sentence; *flag* is for messages.

    Raises:
        BertFusedError: two systems or seeds have one file, or a line is no number.
    """
    paths = {
        name: [Path(str(given).replace("{system}", name).replace("{seed}", str(i + 1))) for i in range(count)]
        for name, count in seeds.items()
    }
    if len({path for each in paths.values() for path in each}) < sum(seeds.values()):
        rule = f"must be a file for each of {', '.join(seeds)}, and for each seed"
        raise BertFusedError(f"{flag} {metric}={given} {rule}; write {{system}} and {{seed}} where their names differ")

    def numbers(path: Path) -> List[float]:
        lines = read(f"{flag} {metric}=", path)
        try:
            scores = [float(line) for line in lines]
            if not all(map(isfinite, scores)):
                raise ValueError("a score is infinite or no number")
            return scores
        except ValueError as error:
            raise BertFusedError(f"{flag} {metric}={path} must have one number a line ({error})") from error

    systems = [(name, [numbers(path) for path in each]) for name, each in paths.items()]
    return GivenScores(metric, str(given), flag == "--error-scores", systems)
