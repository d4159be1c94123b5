"""Copy parallel text without the pairs that are empty, too long, or too different in length.

python examples/clean_pairs.py INPUT OUTPUT SRC TGT [--max-words 175] [--max-ratio 1.5]

It reads INPUT.SRC and INPUT.TGT, and it writes OUTPUT.SRC and OUTPUT.TGT, as Moses' clean-corpus-n.perl does.  It drops
a pair if a sentence is empty or has more than --max-words words, or if one sentence has more than --max-ratio times as
many words as the other.
"""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Optional, Sequence

import parallel_text

from bert_fused_plugin.files import written_output


def main(args: argparse.Namespace) -> None:
    """Copy the pairs that are kept, and print how many these are."""
    sources, outputs = ([Path(f"{p}.{lang}") for lang in args.languages] for p in (args.input, args.output))
    parallel_text.check(sources)
    if args.input == args.output:
        raise SystemExit(f"error: {args.output} would be written over, and it is read here; give another OUTPUT")
    kept = seen = 0
    outputs[0].parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as files:
        new = [files.enter_context(written_output(path)) for path in outputs]
        copies = [files.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in new]
        texts = [files.enter_context(path.open(encoding="utf-8", newline="\n")) for path in sources]
        for pair in zip(*texts):
            lengths = [len(line.split()) for line in pair]
            seen += 1
            if min(lengths) > 0 and max(lengths) <= min(args.max_words, args.max_ratio * min(lengths)):
                kept += 1
                for line, copy in zip(pair, copies):
                    copy.write(" ".join(line.split()) + "\n")
        if not kept:
            raise SystemExit(f"error: none of the {seen:,} pairs of {args.input} would stay; nothing is written")
    print(f"clean_pairs: kept {kept:,} of {seen:,} pairs of {args.input}")


def parse_args(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("languages", nargs=2, metavar=("SRC", "TGT"))
    parser.add_argument("--max-words", type=int, default=175, help="greatest number of words of a sentence")
    parser.add_argument("--max-ratio", type=float, default=1.5, help="greatest ratio of the two numbers of words")
    args = parser.parse_args(argv)
    if args.max_words < 1 or not args.max_ratio >= 1:
        parser.error(f"--max-words and --max-ratio must be at least 1, got {args.max_words} and {args.max_ratio}")
    if args.languages[0] == args.languages[1]:
        parser.error(f"SRC and TGT must differ, got {args.languages[0]} twice")
    return args


if __name__ == "__main__":
    main(parse_args())
