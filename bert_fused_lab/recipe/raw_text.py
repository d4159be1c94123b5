"""From raw parallel text to text in subwords.

DATA holds train.SRC and train.TGT, one sentence a line, and valid, test and test-NAME where they exist.  What is wrong
with the text is reported together, with file and line, before anything is written.  OUT/text appears when it is
complete.  It holds SPLIT.{SRC,TGT} in subwords, raw/SPLIT.{SRC,TGT} before they were split, reference.SPLIT.TGT (the
raw target side) of each test set, and the subword model.  Where BERT reads another text, bert/SPLIT.SRC is that text,
in the same lines.
"""

import os
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, Iterable, List, Optional

from tqdm import tqdm

from bert_fused_lab.recipe.encoder import among_flags
from bert_fused_lab.recipe.running import Run
from bert_fused_lab.recipe.settings import SPLIT_BEFORE
from bert_fused_lab.recipe.splitting import Pair, choose_held_out, read_pairs, training_pairs
from bert_fused_lab.recipe.start import FOLDER, import_model, splits_of_import
from bert_fused_lab.recipe.subwords import Split, count, count_characters, default_symbols, learn, learned, split_file
from bert_fused_lab.recipe.text_checks import Findings, check_split, check_tokenizer
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole

_FEWEST = 50  # training pairs
VALIDATED = 500  # pairs: what trainings validate on, and what is made for it here at most


def make_text(args: Namespace, run: Run, bert: Optional[str]) -> None:
    """Check, split, learn subwords, write; *bert* is the BERT whose tokenizer reads the source text.

    Raises:
        BertFusedError: the text cannot be used.
    """
    text = args.out / "text"
    pairs = check(args, bert)
    try:
        with written_whole(text) as new:
            (new / "raw").mkdir(parents=True)
            write_text(args, run, new, pairs)
    except OSError as error:
        raise BertFusedError(f"{error.filename or text} cannot be written ({error.strerror})") from None


def check(args: Namespace, bert: Optional[str]) -> int:
    """End with all errors of the text, or print all warnings and return the number of pairs of train."""
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
    ends = tuple(f".{language}{packed}" for language in (args.source, args.target) for packed in ("", ".gz"))
    unread = sorted(path.name for path in args.data.glob("*.*") if path.name.endswith(ends) and path.name not in read)
    if unread:
        findings.warnings.append(
            f"{args.data} holds {', '.join(unread)}: not read as parallel text; only unpacked train, valid, test and "
            "test-NAME are"
        )
    source = paths_of(args, "train")[::2][-1]
    if bert is not None and os.access(source, os.R_OK):
        check_tokenizer(bert, source, findings, among_flags(args.bert_flags).bert_tokenizer_options)
    findings.report()
    return pairs


def warn_of_copies(args: Namespace, findings: Findings) -> None:
    """Add a warning for each set of the user whose pairs, or sources, training sees."""
    sets = {split: set(read_pairs(paths_of(args, split)[:2])) for split in given_splits(args)}
    if not sets:
        return
    wanted = {source for pairs in sets.values() for source, _ in pairs}
    trained = filter(all, read_pairs(paths_of(args, "train")[:2]))  # without pairs that have an empty side
    seen = {pair for pair in trained if pair[0] in wanted}
    sources = {source for source, _ in seen}
    for split, pairs in sets.items():
        copies, others = len(pairs & seen), len({source for source, _ in pairs - seen} & sources)
        if copies:
            findings.warnings.append(
                f"{args.data}/{split}.*: {copies:,} of {len(pairs):,} different pairs are in train.*, too, which "
                "makes scores too high; remove them from train.*"
            )
        if others:
            findings.warnings.append(
                f"{args.data}/{split}.*: the sources of {others:,} of {len(pairs):,} different pairs are in train.*, "
                "too, with another translation, which may make scores too high; consider to remove them from train.*"
            )


def given_splits(args: Namespace) -> List[str]:
    """Return which of ``valid``, ``test`` and ``test-NAME`` the user has, at least one side of it."""
    further = {path.stem for language in (args.source, args.target) for path in args.data.glob(f"test-*.{language}")}
    splits = ("valid", "test", *sorted(further))
    return [split for split in splits if any(path.exists() for path in paths_of(args, split)[:2])]


def paths_of(args: Namespace, split: str) -> List[Path]:
    """Return the user's files of *split*: source, target, and what BERT reads where it is another text."""
    source, target = (f"{split}.{language}" for language in (args.source, args.target))
    return [args.data / source, args.data / target, *([args.bert_text / source] if args.bert_text else [])]


def write_text(args: Namespace, run: Run, new: Path, all_pairs: int) -> None:
    """Write everything to the directory *new*; train has *all_pairs*."""
    train, drawn = paths_of(args, "train"), put_aside(args)
    splits: Dict[str, Iterable[Pair]] = {split: read_pairs(paths_of(args, split)) for split in given_splits(args)}
    splits.update(drawn, train=training_pairs(train, [pair for pairs in drawn.values() for pair in pairs]))
    tests = [split for split in splits if split.startswith("test")]
    for split in tests:
        splits[split] = list(splits[split])
        reference = "".join(f"{pair[1]}\n" for pair in splits[split])
        (new / f"reference.{split}.{args.target}").write_bytes(reference.encode())
    counts = {split: write_raw(args, new, split, pairs) for split, pairs in splits.items()}
    subwords, splits_of = make_subwords(args, run, counts["train"], new), splits_of_text(args, new)
    for path in sorted((new / "raw").iterdir()):
        split_file(path, new / path.name, splits_of[path.suffix[1:]])
    tokens = sum(count(new / train[1].name))  # with the ends of sentences
    sizes = ", ".join(f"{counts[split]:,} for {split}" for split in ("valid", *tests))
    print(
        f"prepare: {counts['train']:,} of {all_pairs:,} pairs of train for training, {sizes}; "
        f"{subwords}; the target text has {tokens:,} tokens"
    )


def make_subwords(args: Namespace, run: Run, pairs: int, new: Path) -> str:
    """Learn subwords from *pairs* in *new*, or import the model of --start, and return what they are."""
    if args.start:
        import_model(args, new / "raw", run)
        return "subwords of the model of --start"
    files = [new / "raw" / f"train.{language}" for language in (args.source, args.target)]
    characters = count_characters(files) if args.subwords == "sentencepiece" else 0  # subword-nmt has them besides
    symbols = args.symbols or default_symbols(pairs, characters)
    learn(args.subwords, files, symbols, new)
    return f"{args.subwords} with {symbols:,} symbols"


def splits_of_text(args: Namespace, text: Path) -> Dict[str, Split]:
    """Return for each language the function that splits a line into the subwords of *text*."""
    languages = (args.source, args.target)
    if args.start:
        return splits_of_import(args.out / FOLDER, languages)
    return dict.fromkeys(languages, str if args.subwords == SPLIT_BEFORE else learned(args.subwords, text))


def put_aside(args: Namespace) -> Dict[str, List[Pair]]:
    """Return the pairs of train that become ``valid`` and ``test``, where the user has none."""
    wanted = [split for split in ("valid", "test") if split not in given_splits(args)]
    drawn = choose_held_out(paths_of(args, "train"), wanted, args.seeds[0]) if wanted else {}
    if not all(drawn.values()):
        raise BertFusedError(
            f"{args.data}/train.* has too few different sentences to put {' and '.join(wanted)} aside; give them"
        )
    drawn.update({"valid": drawn["valid"][:VALIDATED]} if "valid" in drawn else {})
    for split, pairs in drawn.items():
        says = f"{len(pairs):,} pairs of train are put aside for {split} (seed {args.seeds[0]})"
        print(f"prepare: {says}; their copies are left out")
    return drawn


def write_raw(args: Namespace, new: Path, split: str, pairs: Iterable[Pair]) -> int:
    """Write *pairs*, and the text for BERT; return their number."""
    folders, written = ("raw", "raw", "bert"), 0
    with ExitStack() as opened:
        files = []
        for folder, path in zip(folders, paths_of(args, split)):
            (new / folder).mkdir(exist_ok=True)
            files.append(opened.enter_context((new / folder / path.name).open("w", encoding="utf-8", newline="\n")))
        for pair in tqdm(pairs, desc=f"reading {split}", unit=" pairs", disable=None, leave=False):
            for text, file in zip(pair, files):
                file.write(f"{text}\n")
            written += 1
    return written
