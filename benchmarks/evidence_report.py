#!/usr/bin/env python
"""Tables and pictures of what benchmarks/evidence.sh has trained.

    benchmarks/evidence_report.py evidence-out [--pictures docs/pictures] [--json docs/evidence]
    benchmarks/evidence_report.py docs/evidence

The second command reads the files of figures that the first one has written; they hold no text of the corpora.

The output is Markdown: the scores by the amount of text, the gain of each seed, how soon the control and the BERT-fused
model reach the same quality, and where a part has other systems too, all of them, also by length and by rare words.
"""

import argparse
import json
from pathlib import Path
from typing import Dict, List, Optional

from evidence_part import SYSTEMS, Part, read_parts
from evidence_pictures import draw

from bert_fused_plugin.reports.training_log import Points

_PARTS = (0.25, 0.5, 1.0)  # of the control's further updates: the levels of quality that are looked for


def reached(curve: Points, level: float, rises: bool) -> Optional[int]:
    """Return the updates after which *curve* is first as good as *level*, or None."""
    return next((updates for updates, value in curve if (value >= level if rises else value <= level)), None)


def scores_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of scores."""
    lines = [
        "| part | epochs | metric | transformer | control | with BERT | gain | BERT reads another sentence |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for part in parts:
        for metric in ("BLEU", "chrF"):
            cells = []
            for system in SYSTEMS:
                value, interval, p = part.score(system, metric)
                cells.append(f"{value:.1f} ± {interval:.1f}" + ("" if p is None else f" (p = {p:.3f})"))
            gain = part.score("bert_fused", metric)[0] - part.score("continued", metric)[0]
            further = ", ".join(f"{part.epochs(system):.0f}" for system in SYSTEMS[1:])
            epochs = f"{part.epochs('transformer'):.0f} + {further}"
            other = f"{part.bert_tests['shuffled']:.1f}" if metric == "BLEU" else ""
            first = (part.name, epochs) if metric == "BLEU" else ("", "")
            lines.append("| " + " | ".join((*first, metric, *cells, f"{gain:+.1f}", other)) + " |")
    return lines


def seeds_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of gains by seed."""
    lines = ["| part | seed | metric | transformer | control | with BERT | gain | p |", "|" + " --- |" * 8]
    for part in parts:
        for metric in ("BLEU", "chrF"):
            values = [part.score(system, metric)[0] for system in SYSTEMS]
            cells = [part.name, str(part.seed), metric, *(f"{value:.1f}" for value in values)]
            cells += [f"{values[2] - values[1]:+.1f}", f"{part.score('bert_fused', metric)[2]:.3f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def time_table(parts: List[Part]) -> List[str]:
    """Return the lines of the table of updates and minutes to the same quality."""
    lines = [
        "| part | quality | control: updates | minutes | with BERT: updates | minutes | and with BERT's states |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for part in parts:
        control_update, fused_update = (part.seconds_of_update(system) for system in SYSTEMS[1:])
        for meter, unit, rises in (("nll_loss", "bits", False), ("bleu", "BLEU", True)):
            fused = part.curve("bert_fused", meter)
            for level, updates in levels(part.curve("continued", meter), rises).items():
                cells = [part.name, f"{level:.2f} {unit}", f"{updates:,}", _minutes(updates * control_update)]
                found = reached(fused, level, rises)
                if found is None:
                    cells += ["not reached", "", ""]
                else:
                    seconds = found * fused_update
                    cells += [f"{found:,}", _minutes(seconds), _minutes(seconds + part.seconds_of_states())]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def systems_table(part: Part) -> List[str]:
    """Return the lines of the table of all systems of *part*."""
    lines = ["| system | updates | epochs | valid nll, bits | BLEU | chrF | TER |", "|" + " --- |" * 7]
    for system in part.runs:
        cells = [f"`{system}`", part.updates(system), f"{part.epochs(system):.0f}"]
        cells.append(f"{min(value for _, value in part.curve(system, 'nll_loss')):.3f}")
        for metric in ("BLEU", "chrF", "TER"):
            value, interval, p = part.score(system, metric)
            cells.append(f"{value:.1f} ± {interval:.1f}" + ("" if p is None else f" (p = {p:.3f})"))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def buckets_table(part: Part) -> List[str]:
    """Return the lines of the table of BLEU by length and by rare words."""
    lines = [f"| BLEU of sentences | number | {' | '.join(f'`{name}`' for name in part.runs)} |"]
    lines.append("|" + " --- |" * (2 + len(part.runs)))
    for kind, unit in (("length", "length"), ("rare", "rare words")):
        for bucket in part.buckets[kind]:
            scores = [_score(bucket["BLEU"][name]) for name in part.runs]
            lines.append(f"| {unit}: {bucket['name']} | {bucket['sentences']} | {' | '.join(scores)} |")
    return lines


def _score(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.1f}"


def levels(curve: Points, rises: bool) -> Dict[float, int]:
    """Return the best values after the `_PARTS` of *curve*, and the updates after which they were reached."""
    found = {}
    for share in _PARTS:
        values = [value for updates, value in curve if updates <= share * curve[-1][0]]
        if not values:  # the first validation came later
            continue
        level = max(values) if rises else min(values)
        found[level] = next(updates for updates, value in curve if value == level)
    return found


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="directory OUT of benchmarks/evidence.sh, or files of --json")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="also draw data_curve.png and learning_curves.png")
    parser.add_argument(
        "--json", type=Path, metavar="DIR", help="also write the figures of each part to DIR/PART-SEED.json"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the tables and pictures; default: %(default)s")
    args = parser.parse_args()
    found = read_parts(args.folder)
    parts = [part for part in found if part.seed == args.seed]
    if not parts:
        parser.error(f"{args.folder} has no PART-{args.seed}/report.json; run benchmarks/evidence.sh first")
    print_tables(parts, found)
    if args.json:
        args.json.mkdir(parents=True, exist_ok=True)
        for part in found:
            path = args.json / f"{part.figures['part']}.json"
            path.write_text(json.dumps(part.figures, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{path} is written")
    if args.pictures:
        draw(compared(parts), [part for part in compared(found) if part.seed != args.seed], args.pictures)


def compared(parts: List[Part]) -> List[Part]:
    """Return those of *parts* that have a transformer, its control and a BERT-fused model."""
    return [part for part in parts if set(SYSTEMS) <= part.runs.keys()]


def print_tables(parts: List[Part], found: List[Part]) -> None:
    """Print the tables of *parts*, and the gains of all seeds in *found*."""
    with_bert = compared(parts)
    if with_bert:
        print("\n".join([*scores_table(with_bert), "", *seeds_table(compared(found)), "", *time_table(with_bert)]))
    for part in parts:
        if part.runs.keys() > set(SYSTEMS) or part not in with_bert:
            print("\n".join(["", f"{part.name}:", "", *systems_table(part), "", *buckets_table(part)]))
    for system in SYSTEMS:
        speeds = [f"{part.name}: {part.seconds_of_update(system):.2f}" for part in parts if system in part.runs]
        if speeds:
            print(f"\nseconds of an update, {system}: {', '.join(speeds)}")
    if with_bert:
        states = [f"{part.name}: {part.seconds_of_states():.0f}" for part in with_bert]
        print(f"\nseconds of BERT's states: {', '.join(states)}")


if __name__ == "__main__":
    main()
