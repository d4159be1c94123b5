"""From raw parallel text to text in subwords.

python examples/own_data/prepare.py DATA OUT SRC TGT [--bert NAME] [--subwords sentencepiece] [--symbols N] [--moses]
    [--bert-text DIR]

DATA holds train.SRC and train.TGT, one sentence a line, and valid and test where they exist.  What is wrong with the
text is reported together, with file and line, before anything is written.  OUT/text appears when it is complete. It
holds {train,valid,test}.{SRC,TGT} in subwords, reference.TGT (the raw target side of the test set), the subword model,
and `numbers`: how many pairs and target tokens there are.  With --bert-text, bert/{train,valid,test}.SRC is the text
that BERT reads, in the same lines.
"""

import argparse
import os
import shutil
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence

from splitting import Pair, choose_held_out, read_pairs, training_pairs
from subwords import KINDS, count_characters, default_symbols, learn, split_file, tokenise
from text_checks import Findings, check_bert_text, check_split, check_tokenizer
from tqdm import tqdm

_FEWEST = 100  # training pairs


def main(args: argparse.Namespace) -> None:
    """Check, split, learn subwords, write."""
    check_places(args)
    check(args)
    new, old = args.output / ".text-new", args.output / ".text-old"  # an interrupted run may have left them
    remove(new)
    try:
        (new / "raw").mkdir(parents=True)
        make(args, new)
        replace(args.output / "text", new, old)
    except OSError as error:
        raise SystemExit(f"error: {error.filename or new} cannot be written ({error.strerror})") from None
    finally:
        remove(new)


def replace(text: Path, new: Path, old: Path) -> None:
    """Let the directory *new* take the place of *text*, which is whole or absent at every moment, and is *old* last."""
    remove(old)
    if text.exists():
        text.rename(old)
    new.rename(text)
    remove(old)


def remove(folder: Path) -> None:
    """Remove *folder* with all that is in it, or a link to one; do nothing if it is not there."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def check_places(args: argparse.Namespace) -> None:
    """End where something of the user would be removed.

    Raises:
        SystemExit: the place of the output holds other things.
    """
    text = args.output / "text"
    if text.exists() and not (text / "numbers").is_file():
        raise SystemExit(f"error: {text} is there and was not made by this recipe; give another OUT")
    if text.resolve() in (args.data.resolve(), *args.data.resolve().parents):
        raise SystemExit(f"error: DATA={args.data} is inside {text}, which is made anew; give another OUT")


def check(args: argparse.Namespace) -> None:
    """End with all errors of the text, and print all warnings.

    Raises:
        SystemExit: the text cannot be used.
    """
    findings = Findings()
    pairs = check_split(args.data, "train", args.languages, findings)
    if pairs < _FEWEST and (pairs or not findings.errors):
        findings.errors.append(f"{args.data}/train.* has {pairs} pairs; it must have at least {_FEWEST}")
    for split in given_splits(args):
        check_split(args.data, split, args.languages, findings)
    for split in ("train", *given_splits(args)) if args.bert_text else ():
        check_bert_text(*paths_of(args, split)[::2], findings)
    source = paths_of(args, "train")[::2][-1]
    if args.bert is not None and os.access(source, os.R_OK):
        check_tokenizer(args.bert, source, findings)
    for warning in findings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if findings.errors:
        raise SystemExit("\n".join(f"error: {error}" for error in findings.errors))


def given_splits(args: argparse.Namespace) -> List[str]:
    """Return which of ``valid`` and ``test`` the user has, at least one side of it."""
    return [
        s for s in ("valid", "test") if any((args.data / f"{s}.{language}").exists() for language in args.languages)
    ]


def paths_of(args: argparse.Namespace, split: str) -> List[Path]:
    """Return the user's files of *split*: source, target, and what BERT reads where it is another text."""
    source, target = (f"{split}.{language}" for language in args.languages)
    return [args.data / source, args.data / target, *([args.bert_text / source] if args.bert_text else [])]


def make(args: argparse.Namespace, new: Path) -> None:
    """Write everything to the directory *new*."""
    if args.bert_text:
        (new / "bert").mkdir()
    splits = write_raw(args, new)
    pairs = splits["train"]
    shutil.copy(new / "raw" / f"test.{args.languages[1]}", new / f"reference.{args.languages[1]}")
    if args.moses:
        for path in sorted((new / "raw").iterdir()):
            tokenised = new / f"{path.name}.tok"
            split_file(path, tokenised, partial(tokenise, language=path.suffix[1:]))
            tokenised.replace(path)
    files = [new / "raw" / f"train.{language}" for language in args.languages]
    characters = count_characters(files) if args.subwords == "sentencepiece" else 0  # subword-nmt has them besides
    symbols = args.symbols or default_symbols(pairs, characters)
    split = learn(args.subwords, files, symbols, new)
    for path in sorted((new / "raw").iterdir()):
        split_file(path, new / path.name, split)
    shutil.rmtree(new / "raw")
    with (new / f"train.{args.languages[1]}").open(encoding="utf-8") as file:
        tokens = sum(len(line.split()) + 1 for line in file)
    numbers = {"pairs": pairs, "tokens": tokens, "test_pairs": splits["test"]}
    (new / "numbers").write_text("".join(f"{name}={n}\n" for name, n in numbers.items()), encoding="utf-8")
    tokenised_by = "tokenised by Moses' rules, " if args.moses else ""
    print(
        f"own_data: {pairs:,} training pairs, {splits['valid']:,} for validation, {splits['test']:,} for the test; "
        f"{tokenised_by}{args.subwords} with {symbols:,} symbols, {tokens:,} of them in the target text"
    )


def write_raw(args: argparse.Namespace, new: Path) -> Dict[str, int]:
    """Write the text of the three splits, without incomplete pairs, and return their numbers of pairs."""
    train = paths_of(args, "train")
    given = given_splits(args)
    wanted = [split for split in ("valid", "test") if split not in given]
    held_out = choose_held_out(train, wanted, args.seed) if wanted else {}
    if wanted and not all(held_out.values()):
        raise SystemExit(
            f"error: {args.data}/train.* repeats too few sentences to put {' and '.join(wanted)} aside; give them"
        )
    counts = {}
    for split in ("valid", "test"):
        pairs = read_pairs(paths_of(args, split)) if split in given else held_out[split]
        counts[split] = write_pairs(new, split, args.languages, pairs)
    held_out_pairs = list(chain(*held_out.values()))
    counts["train"] = write_pairs(new, "train", args.languages, training_pairs(train, held_out_pairs))
    for split in wanted:
        print(f"own_data: {counts[split]:,} pairs of train are put aside for {split} (seed {args.seed})")
    return counts


def write_pairs(new: Path, split: str, languages: Sequence[str], pairs: Iterable[Pair]) -> int:
    """Write ``raw/{split}.{language}`` of both languages and the text for BERT, and return the number of pairs."""
    source, target = (f"{split}.{language}" for language in languages)
    paths = [new / "raw" / source, new / "raw" / target, *([new / "bert" / source] if (new / "bert").exists() else [])]
    files = [path.open("w", encoding="utf-8", newline="\n") for path in paths]
    count = 0
    for pair in tqdm(pairs, desc=f"reading {split}", unit=" pairs", disable=None, leave=False):
        for text, file in zip(pair, files):
            file.write(f"{text}\n")
        count += 1
    for file in files:
        file.close()
    return count


def parse_args(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("languages", nargs=2, metavar=("SRC", "TGT"))
    parser.add_argument("--bert", metavar="NAME", help="BERT whose tokenizer reads the source text")
    parser.add_argument(
        "--bert-text", type=Path, metavar="DIR", help="what BERT reads, such as segmented text, as DIR/{split}.SRC"
    )
    parser.add_argument("--subwords", choices=KINDS, default="sentencepiece", help="kind of subwords")
    parser.add_argument(
        "--symbols", type=int, metavar="N", help="size of the joint vocabulary; default: by the amount of text"
    )
    parser.add_argument("--moses", action="store_true", help="tokenise both languages by Moses' rules first")
    parser.add_argument("--seed", type=int, default=1, help="seed of the pairs that are put aside")
    args = parser.parse_args(argv)
    if args.languages[0] == args.languages[1]:
        parser.error(f"SRC and TGT must differ, got {args.languages[0]} twice")
    if args.symbols is not None and args.symbols < 1:
        parser.error(f"SYMBOLS must be at least 1, got {args.symbols}")
    return args


if __name__ == "__main__":
    main(parse_args())
