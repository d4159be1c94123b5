#!/usr/bin/env python
"""Predicts what the bookkeeping of a corpus costs, from what benchmarks/scale.py has measured for smaller ones.

benchmarks/scale_model.py scale.json --pairs 1e8

Each figure is taken to be a + b x pairs, with a and b from the two smallest measured corpora.  The first table compares
that with the larger ones that were measured.  The second one has the figures of --pairs, which are computed from the
smallest and the largest measured corpus, and not measured.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

FIGURES = {  # name: unit, size of the unit, and what is too small to be compared
    "cpu": ("CPU seconds", 1.0, 1.0),
    "private": ("private MB", 1e6, 20e6),
    "peak": ("peak MB", 1e6, 20e6),
    "pss": ("PSS MB", 1e6, 20e6),
    "files": ("files", 1.0, 10.0),
    "bytes": ("MB on disk", 1e6, 1e6),
}

Rows = List[Dict[str, Any]]


class Line:
    """The line a + b x pairs through two measured figures; it never falls."""

    def __init__(self, first: Tuple[float, float], second: Tuple[float, float]) -> None:
        (x, y), (x2, y2) = first, second
        self.slope = max(0.0, (y2 - y) / (x2 - x))
        self.start = max(0.0, y2 - self.slope * x2)

    def at(self, pairs: float) -> float:
        """Return the figure of so many *pairs*."""
        return self.start + self.slope * pairs


def groups(rows: Rows) -> Dict[Tuple[str, int], Rows]:
    """Return the rows of each step and number of ranks, by rising number of pairs."""
    found: Dict[Tuple[str, int], Rows] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["pairs"]):
        found[row["what"], row["ranks"]].append(row)
    return found


def deviations(rows: Rows) -> Iterator[Tuple[Dict[str, Any], str, float]]:
    """Yield the row, the figure and the prediction of each figure that the two smallest corpora predict."""
    for group in groups(rows).values():
        for row in group[2:]:
            for name, (_, _, least) in FIGURES.items():
                line = Line(*((small["pairs"], small[name]) for small in group[:2]))
                if max(row[name], line.at(row["pairs"])) >= least:
                    yield row, name, line.at(row["pairs"])


def comparison(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of what was predicted and what was measured."""
    yield "| pairs | ranks | step | figure | predicted | measured | deviation |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row, name, predicted in deviations(rows):
        title, unit, _ = FIGURES[name]
        off = f"{predicted / row[name] - 1:+.0%}" if row[name] else "-"
        yield (
            f"| {row['pairs']:,} | {row['ranks']} | {row['what']} | {title} | {predicted / unit:,.1f} | "
            f"{row[name] / unit:,.1f} | {off} |"
        )


def computed(rows: Rows, pairs: float) -> Iterator[str]:
    """Yield the lines of a table of the figures of so many *pairs*, which are computed."""
    titles = [title for title, _, _ in FIGURES.values()]
    yield f"| {pairs:,.0f} pairs, computed: ranks | step | {' | '.join(titles)} |"
    yield f"| --- | --- |{' --- |' * len(titles)}"
    for (step, ranks), group in groups(rows).items():
        if len(group) > 1:
            lines = {name: Line(*((row["pairs"], row[name]) for row in (group[0], group[-1]))) for name in FIGURES}
            values = [f"{lines[name].at(pairs) / unit:,.0f}" for name, (_, unit, _) in FIGURES.items()]
            yield f"| {ranks} | {step} | {' | '.join(values)} |"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", help="file that benchmarks/scale.py --json has written")
    parser.add_argument("--pairs", type=float, default=1e8, help="number of pairs; default: 1e8")
    return parser.parse_args()


if __name__ == "__main__":
    options = parse_args()
    measured = json.loads(Path(options.rows).read_text(encoding="utf-8"))
    print("\n".join([*comparison(measured), "", *computed(measured, options.pairs)]))
