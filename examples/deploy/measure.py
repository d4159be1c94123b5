"""Translate a test set by a directory of convert.py on one core, for a report beside the systems of fairseq.

python examples/deploy/measure.py DEPLOY TEXT [--tokenised]

TEXT is the source side in subwords.  DEPLOY.float32 and DEPLOY.int8, beside the directory, get the translations, one a
line.  With --tokenised, their words stay tokenised.
"""

import argparse
import runpy
import time
from pathlib import Path

PRECISIONS = ("float32", "int8")


def main(args: argparse.Namespace) -> None:
    """Write the translations, and print speed and size."""
    with args.text.open(encoding="utf-8", newline="\n") as lines:
        sentences = [line.split() for line in lines]
    translator_class = runpy.run_path(str(args.folder / "translate.py"))["Translator"]
    for precision in PRECISIONS:
        translator = translator_class(precision, threads=1)
        translator.search(sentences[:8])  # memory warms up
        start = time.perf_counter()
        found = translator.search(sentences)
        seconds = time.perf_counter() - start
        text = "".join(f"{translator.join(symbols, args.tokenised)}\n" for symbols in found)
        args.folder.with_name(f"{args.folder.name}.{precision}").write_text(text, encoding="utf-8")
        size = (args.folder / precision / "model.bin").stat().st_size / 1e6
        print(
            f"ctranslate2_{precision}: {len(sentences) / seconds:,.1f} sentences a second on one core, {size:,.1f} MB"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DEPLOY")
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokenised", action="store_true", help="leave the words of the translations tokenised")
    main(parser.parse_args())
