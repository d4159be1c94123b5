"""Drops sentence pairs that are empty, longer than --max-words, or whose lengths differ more than --max-ratio times.

python examples/clean_pairs.py INPUT OUTPUT SRC TGT [--max-words 175] [--max-ratio 1.5]

From INPUT.SRC and INPUT.TGT to OUTPUT.SRC and OUTPUT.TGT, as Moses' clean-corpus-n.perl does.
"""

import argparse
from contextlib import ExitStack
from itertools import zip_longest
from typing import Optional, Sequence


def main(args: argparse.Namespace) -> None:
    """Copy the pairs that are to stay, and say how many these are."""
    kept = seen = 0
    with ExitStack() as files:
        sources, outputs = (
            [files.enter_context(open(f"{p}.{lang}", mode, encoding="utf-8", newline="\n")) for lang in args.languages]
            for p, mode in ((args.input, "r"), (args.output, "w"))
        )
        for pair in zip_longest(*sources):
            if None in pair:
                raise SystemExit(f"error: {args.input}.{{{','.join(args.languages)}}} differ in their number of lines")
            lengths = [len(line.split()) for line in pair]
            seen += 1
            if min(lengths) > 0 and max(lengths) <= min(args.max_words, args.max_ratio * min(lengths)):
                kept += 1
                for line, output in zip(pair, outputs):
                    output.write(" ".join(line.split()) + "\n")
    print(f"clean_pairs: kept {kept:,} of {seen:,} pairs of {args.input}")


def parse_args(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("languages", nargs=2, metavar=("SRC", "TGT"))
    parser.add_argument("--max-words", type=int, default=175)
    parser.add_argument("--max-ratio", type=float, default=1.5)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(parse_args())
