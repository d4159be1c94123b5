#!/usr/bin/env python
"""Draws the BLEU of one or several systems by source length, from the output of fairseq-generate.

It is figure 2 of Bahdanau et al. (ICLR 2015): a model without attention loses on long sentences.

    benchmarks/bleu_by_length.py gru_bahdanau=bahdanau.out gru_seq2seq=seq2seq.out --output length.png
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import sacrebleu


class Sentence(NamedTuple):
    """One sentence of a test set."""

    source: str
    reference: str
    hypothesis: str


def main() -> None:
    """Read the outputs, print a table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "systems", nargs="+", metavar="NAME=FILE", help="name of a system, and output of fairseq-generate"
    )
    parser.add_argument(
        "--width", type=int, default=5, help="number of source lengths in one group; default: %(default)s"
    )
    parser.add_argument("--output", help="draw the figure to this file, such as length.png")
    parser.add_argument("--json", help="write the numbers to this file")
    args = parser.parse_args()
    if args.width < 1:
        parser.error(f"--width must be at least 1, got {args.width}")
    found: Dict[str, Dict[str, Sentence]] = {}
    for system in args.systems:
        name, _, path = system.partition("=")
        if not (name and path) or name in found:
            parser.error(f"a system is given as NAME=FILE, each with a name of its own, got {system!r}")
        try:
            found[name] = read_output(Path(path))
        except (OSError, ValueError) as error:
            parser.error(f"{path}: {error}")
        first = found[next(iter(found))]
        if {n: s[:2] for n, s in found[name].items()} != {n: s[:2] for n, s in first.items()}:
            parser.error(
                f"{path}: its sources or references are not those of {next(iter(found))}; give outputs for one test set"
            )
    scores = {name: by_length(list(sentences.values()), args.width) for name, sentences in found.items()}
    print_table(scores, args.width)
    try:
        if args.json:
            Path(args.json).write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        if args.output:
            draw(scores, args.width, args.output)
    except (OSError, ValueError) as error:  # matplotlib's, of an ending that it does not know
        parser.error(f"--json or --output cannot be written: {error}")


def read_output(path: Path) -> Dict[str, Sentence]:
    """Return the sentences of an output of fairseq-generate, by their numbers.

    Raises:
        ValueError: the output has no translations, or lacks their sources or references.
    """
    rows: Dict[str, Dict[str, str]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition("-")
        if kind in ("S", "T", "H"):
            number, *fields = rest.split("\t")
            rows[number].setdefault(kind, fields[-1] if fields else "")  # the first hypothesis is the best
    if not any("H" in row for row in rows.values()):
        raise ValueError("it has no translations (H lines); give the output of fairseq-generate")
    incomplete = [number for number, row in rows.items() if not {"S", "T", "H"} <= set(row)]
    if incomplete:
        raise ValueError(f"sentence {incomplete[0]} lacks its source, reference or translation; do not give --quiet")
    return {number: Sentence(row["S"], row["T"], row["H"]) for number, row in rows.items()}


def by_length(sentences: List[Sentence], width: int) -> Dict[int, Dict[str, Any]]:
    """Return BLEU and the number of sentences of each group of source lengths, by the longest length in it."""
    groups: Dict[int, List[Sentence]] = defaultdict(list)
    for sentence in sentences:
        words = len(sentence.source.split())
        groups[max(1, -(-words // width)) * width].append(sentence)
    result = {}
    for longest, group in sorted(groups.items()):
        bleu = sacrebleu.corpus_bleu(
            [s.hypothesis for s in group], [[s.reference for s in group]], tokenize="none", force=True
        )
        result[longest] = {"bleu": round(bleu.score, 2), "sentences": len(group)}
    return result


def print_table(scores: Dict[str, Dict[int, Dict[str, Any]]], width: int) -> None:
    """Print one row for each group of lengths."""
    print("| source words | sentences | " + " | ".join(scores) + " |")
    print("| --- " * (2 + len(scores)) + "|")
    for longest in sorted({longest for groups in scores.values() for longest in groups}):
        found = [groups.get(longest) for groups in scores.values()]
        count = next(group["sentences"] for group in found if group)
        cells = " | ".join("-" if group is None else f"{group['bleu']:.2f}" for group in found)
        print(f"| {longest - width + 1}-{longest} | {count} | {cells} |")


def draw(scores: Dict[str, Dict[int, Dict[str, Any]]], width: int, path: str) -> None:
    """Draw one line for each system."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for name, groups in scores.items():
        axes.plot(list(groups), [group["bleu"] for group in groups.values()], marker="o", label=name)
    axes.set_xlabel(f"source length in words, groups of {width}")
    axes.set_ylabel("BLEU")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
