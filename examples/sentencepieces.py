"""A joint sentencepiece model, and text split by it.

python examples/sentencepieces.py DIR OUT SRC TGT --symbols 8000 --valid 2000

From DIR/{train,valid}.{SRC,TGT}, raw text, to OUT/{train,valid,test}.{SRC,TGT}: valid is the end of DIR/train and
chooses checkpoints, test is DIR/valid, OUT/reference.TGT is test's unsplit target side.
"""

import argparse
from pathlib import Path
from typing import Optional, Sequence

import sentencepiece


def main(args: argparse.Namespace) -> None:
    """Read, train, split, write."""
    args.output.mkdir(parents=True, exist_ok=True)
    text = {}
    for language in args.languages:
        train = lines(args.dir / f"train.{language}")
        if len(train) <= args.valid:
            raise SystemExit(f"error: {args.dir}/train.{language} has {len(train)} lines, --valid takes {args.valid}")
        text["train", language], text["valid", language] = train[: -args.valid], train[-args.valid :]
        text["test", language] = lines(args.dir / f"valid.{language}")
    prefix = args.output / "sentencepiece"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for language in args.languages for line in text["train", language]]),
        model_prefix=str(prefix),
        vocab_size=args.symbols,
        hard_vocab_limit=False,  # a small text has fewer
        character_coverage=1.0,
        normalization_rule_name="identity",  # the default would turn Persian half-spaces into spaces
        minloglevel=1,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    for (split, language), content in text.items():
        pieces = [" ".join(line) for line in model.encode(content, out_type=str)]
        write(args.output / f"{split}.{language}", pieces)
    write(args.output / f"reference.{args.languages[1]}", text["test", args.languages[1]])


def lines(path: Path) -> "list[str]":
    """Return a file's lines: only newlines part them, as for fairseq."""
    with path.open(encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file]


def write(path: Path, content: "list[str]") -> None:
    path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")


def parse_args(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("languages", nargs=2, metavar=("SRC", "TGT"))
    parser.add_argument("--symbols", type=int, required=True, help="size of the joint vocabulary")
    parser.add_argument("--valid", type=int, required=True, help="training pairs put aside")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(parse_args())
