"""From raw parallel text to text in subwords.

python examples/own_data/prepare.py DATA OUT SRC TGT [--bert NAME] [--subwords sentencepiece] [--symbols N]
    [--bert-text DIR]

DATA holds train.SRC and train.TGT, one sentence a line, and valid, test and test-NAME where they exist.  What is wrong
with the text is reported together, with file and line, before anything is written.  OUT/text appears when it is
complete.  It holds SPLIT.{SRC,TGT} in subwords, raw/SPLIT.{SRC,TGT} before they were split,
reference.SPLIT.TGT (the raw target side) of each test set, the subword model, and `numbers`: how many pairs there are.
With --bert-text, bert/SPLIT.SRC is the text that BERT reads, in the same lines.
"""

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence

from splitting import Pair, choose_held_out, read_pairs, training_pairs
from subwords import KINDS, count_characters, default_symbols, learn, split_file
from text_checks import Findings, check_split, check_tokenizer
from tqdm import tqdm

from bert_fused_plugin.files import written_whole

_FEWEST = 50  # training pairs
_VALIDATED = 500  # pairs of a validation set that is made here


def main(args: argparse.Namespace) -> None:
    """Check, split, learn subwords, write.

    Raises:
        SystemExit: the text cannot be used, or the place of the output holds other things of the user.
    """
    text = args.output / "text"
    if text.exists() and not (text / "numbers").is_file():
        raise SystemExit(f"error: {text} is there and was not made by this recipe; give another OUT")
    if text.resolve() in (args.data.resolve(), *args.data.resolve().parents):
        raise SystemExit(f"error: DATA={args.data} is inside {text}, which is made anew; give another OUT")
    check(args)
    try:
        with written_whole(text) as new:
            (new / "raw").mkdir(parents=True)
            make(args, new)
    except OSError as error:
        raise SystemExit(f"error: {error.filename or text} cannot be written ({error.strerror})") from None


def check(args: argparse.Namespace) -> None:
    """End with all errors of the text, and print all warnings."""
    findings = Findings()
    keeps_symbols = args.subwords == "subword-nmt"
    pairs = check_split(paths_of(args, "train"), findings, keeps_symbols)
    if pairs < _FEWEST and (pairs or not findings.errors):
        findings.errors.append(f"{args.data}/train.* has {pairs} pairs; it must have at least {_FEWEST}")
    for split in given_splits(args):
        if "," in split:
            findings.errors.append(f"{args.data}/{split}.*: fairseq splits names at commas; rename these files")
        check_split(paths_of(args, split), findings, keeps_symbols)
    if not findings.errors:
        warn_of_copies(args, findings)
    read = {path.name for split in ("train", *given_splits(args)) for path in paths_of(args, split)}
    ends = tuple(f".{language}{packed}" for language in args.languages for packed in ("", ".gz"))
    unread = sorted(path.name for path in args.data.glob("*.*") if path.name.endswith(ends) and path.name not in read)
    if unread:
        findings.warnings.append(
            f"{args.data} holds {', '.join(unread)}: not read; only unpacked train, valid, test and test-NAME are"
        )
    source = paths_of(args, "train")[::2][-1]
    if args.bert is not None and os.access(source, os.R_OK):
        check_tokenizer(args.bert, source, findings, args.bert_tokenizer_options)
    for warning in findings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if findings.errors:
        raise SystemExit("\n".join(f"error: {error}" for error in findings.errors))


def warn_of_copies(args: argparse.Namespace, findings: Findings) -> None:
    """Add a warning for each set of the user whose pairs, or sources, training sees."""
    given = {split: set(read_pairs(paths_of(args, split)[:2])) for split in given_splits(args)}
    if not given:
        return
    wanted = {source for pairs in given.values() for source, _ in pairs}
    trained = filter(all, read_pairs(paths_of(args, "train")[:2]))  # without pairs that have an empty side
    seen = {pair for pair in trained if pair[0] in wanted}
    sources = {source for source, _ in seen}
    for split, pairs in given.items():
        copies, others = len(pairs & seen), len({source for source, _ in pairs - seen} & sources)
        if copies:
            findings.warnings.append(
                f"{args.data}/{split}.*: {copies:,} of {len(pairs):,} different pairs are in train.*, too, which makes "
                "scores too high; remove them from train.*"
            )
        if others:
            findings.warnings.append(
                f"{args.data}/{split}.*: the sources of {others:,} of {len(pairs):,} different pairs are in train.*, "
                "too, with another translation, which may make scores too high; consider to remove them from train.*"
            )


def given_splits(args: argparse.Namespace) -> List[str]:
    """Return which of ``valid``, ``test`` and ``test-NAME`` the user has, at least one side of it."""
    further = {path.stem for language in args.languages for path in args.data.glob(f"test-*.{language}")}
    splits = ("valid", "test", *sorted(further))
    return [split for split in splits if any(path.exists() for path in paths_of(args, split)[:2])]


def paths_of(args: argparse.Namespace, split: str) -> List[Path]:
    """Return the user's files of *split*: source, target, and what BERT reads where it is another text."""
    source, target = (f"{split}.{language}" for language in args.languages)
    return [args.data / source, args.data / target, *([args.bert_text / source] if args.bert_text else [])]


def make(args: argparse.Namespace, new: Path) -> None:
    """Write everything to the directory *new*."""
    train, drawn = paths_of(args, "train"), put_aside(args)
    splits: Dict[str, Iterable[Pair]] = {split: read_pairs(paths_of(args, split)) for split in given_splits(args)}
    splits.update(drawn, train=training_pairs(train, [pair for pairs in drawn.values() for pair in pairs]))
    tests = [split for split in splits if split.startswith("test")]
    for split in tests:
        splits[split] = list(splits[split])
        reference = "".join(f"{pair[1]}\n" for pair in splits[split])
        (new / f"reference.{split}.{args.languages[1]}").write_bytes(reference.encode())
    counts = {split: write_raw(args, new, split, pairs) for split, pairs in splits.items()}
    files = [new / "raw" / path.name for path in train[:2]]
    characters = count_characters(files) if args.subwords == "sentencepiece" else 0  # subword-nmt has them besides
    symbols = args.symbols or default_symbols(counts["train"], characters)
    split_line = learn(args.subwords, files, symbols, new)
    for path in sorted((new / "raw").iterdir()):
        split_file(path, new / path.name, split_line)
    with (new / train[1].name).open(encoding="utf-8") as file:
        tokens = sum(len(line.split()) + 1 for line in file)
    (new / "numbers").write_text(f"pairs={counts['train']}\n", encoding="utf-8")
    given = sum(1 for _ in filter(all, read_pairs(train)))
    sizes = ", ".join(f"{counts[split]:,} for {split}" for split in ("valid", *tests))
    print(
        f"own_data: {counts['train']:,} of {given:,} pairs of train for training, {sizes}; "
        f"{args.subwords} with {symbols:,} symbols; the target text has {tokens:,} tokens"
    )


def put_aside(args: argparse.Namespace) -> Dict[str, List[Pair]]:
    """Return the pairs of train that become ``valid`` and ``test``, where the user has none."""
    wanted = [split for split in ("valid", "test") if split not in given_splits(args)]
    drawn = choose_held_out(paths_of(args, "train"), wanted, args.seed) if wanted else {}
    if not all(drawn.values()):
        raise SystemExit(
            f"error: {args.data}/train.* has too few different sentences to put {' and '.join(wanted)} aside; give them"
        )
    drawn.update({"valid": drawn["valid"][:_VALIDATED]} if "valid" in drawn else {})
    for split, pairs in drawn.items():
        count = f"{len(pairs):,} pairs of train are"
        print(f"own_data: {count} put aside for {split} (seed {args.seed}); their copies are left out")
    return drawn


def write_raw(args: argparse.Namespace, new: Path, split: str, pairs: Iterable[Pair]) -> int:
    """Write *pairs*, and the text for BERT; return their number."""
    folders, count = ("raw", "raw", "bert"), 0
    with ExitStack() as opened:
        files = []
        for folder, path in zip(folders, paths_of(args, split)):
            (new / folder).mkdir(exist_ok=True)
            files.append(opened.enter_context((new / folder / path.name).open("w", encoding="utf-8", newline="\n")))
        for pair in tqdm(pairs, desc=f"reading {split}", unit=" pairs", disable=None, leave=False):
            for text, file in zip(pair, files):
                file.write(f"{text}\n")
            count += 1
    return count


def parse_args(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("languages", nargs=2, metavar=("SRC", "TGT"))
    parser.add_argument("--bert", metavar="NAME", help="BERT whose tokenizer reads the source text")
    parser.add_argument("--bert-tokenizer-options", metavar="NAME=VALUE", help="options of this tokenizer")
    parser.add_argument(
        "--bert-text", type=Path, metavar="DIR", help="what BERT reads, such as segmented text, as DIR/{split}.SRC"
    )
    parser.add_argument("--subwords", choices=KINDS, default="sentencepiece", help="kind of subwords")
    parser.add_argument("--symbols", type=int, metavar="N", help="size of the vocabulary; default: by amount of text")
    parser.add_argument("--seed", type=int, default=1, help="seed of the pairs that are put aside")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(parse_args())
