"""Train a joint sentencepiece model, and split text with it.

python examples/sentencepieces.py DIR OUT SRC TGT --symbols 8000 --valid 2000

It reads raw text, DIR/{train,valid}.{SRC,TGT}, and it writes OUT/{train,valid,test}.{SRC,TGT} and OUT/reference.TGT.
The last pairs of DIR/train become valid, which chooses checkpoints, and DIR/valid becomes test.  The reference is the
target side of test, which is not split.
"""

import argparse
from pathlib import Path
from typing import Optional, Sequence

import parallel_text
import sentencepiece


def main(args: argparse.Namespace) -> None:
    """Read the text, train the model, and write the split text."""
    for split in ("train", "valid"):
        parallel_text.check([args.dir / f"{split}.{language}" for language in args.languages])
    text = {}
    for language in args.languages:
        train = parallel_text.read(args.dir / f"train.{language}")
        if len(train) <= args.valid:
            raise SystemExit(f"error: {args.dir}/train.{language} has {len(train)} lines, --valid takes {args.valid}")
        text["train", language], text["valid", language] = train[: -args.valid], train[-args.valid :]
        text["test", language] = parallel_text.read(args.dir / f"valid.{language}")
    outputs = [args.output / f"{split}.{language}" for split, language in text]
    outputs.append(args.output / f"reference.{args.languages[1]}")
    sources = [args.dir / f"{split}.{language}" for split in ("train", "valid") for language in args.languages]
    with parallel_text.written_together(outputs, sources) as files:
        model = train_model(args, [line for language in args.languages for line in text["train", language]])
        for content, file in zip(text.values(), files):
            file.writelines(" ".join(line) + "\n" for line in model.encode(content, out_type=str))
        files[-1].writelines(f"{line}\n" for line in text["test", args.languages[1]])


def train_model(args: argparse.Namespace, lines: "list[str]") -> sentencepiece.SentencePieceProcessor:
    """Train a sentencepiece model on *lines*, and write it to the output directory."""
    prefix = args.output / "sentencepiece"
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_prefix=str(prefix),
            vocab_size=args.symbols,
            hard_vocab_limit=False,  # a small text may have fewer symbols
            character_coverage=1.0,
            normalization_rule_name="identity",  # the default turns Persian half-spaces into spaces
            minloglevel=1,
        )
    except RuntimeError as error:
        raise SystemExit(f"error: sentencepiece makes no --symbols {args.symbols} of this text ({error})") from None
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


def parse_args(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("languages", nargs=2, metavar=("SRC", "TGT"))
    parser.add_argument("--symbols", type=int, required=True, help="size of the joint vocabulary")
    parser.add_argument(
        "--valid", type=int, required=True, help="number of training pairs that are put aside for validation"
    )
    args = parser.parse_args(argv)
    if args.valid < 1 or args.symbols < 1:
        parser.error(f"--symbols and --valid must be at least 1, got {args.symbols} and {args.valid}")
    if args.languages[0] == args.languages[1]:
        parser.error(f"SRC and TGT must differ, got {args.languages[0]} twice")
    return args


if __name__ == "__main__":
    main(parse_args())
