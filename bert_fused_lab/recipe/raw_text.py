"""From raw parallel text to text in subwords.

DATA holds train.SRC and train.TGT, one sentence a line, and valid, test and test-NAME where they exist.  What is wrong
with the text is reported together, with file and line, before anything is written.  OUT/text appears when it is
complete.  It holds SPLIT.{SRC,TGT} in subwords, raw/SPLIT.{SRC,TGT} before they were split, reference.SPLIT.TGT (the
raw target side) of each test set, and the subword model.  Where BERT reads another text, bert/SPLIT.SRC is that text,
in the same lines.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from tqdm import tqdm

from bert_fused_lab.recipe.splitting import Pair, choose_held_out, read_pairs, training_pairs
from bert_fused_lab.recipe.subwords import Split, count_characters, default_symbols, learn, split_file
from bert_fused_lab.recipe.text_checks import Findings, check_split, check_tokenizer
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole

_FEWEST = 50  # training pairs
_VALIDATED = 500  # pairs of a validation set that is made here


@dataclass(frozen=True)
class RawText:
    """Raw text, and how it becomes text in subwords.

    Args:
        data: its directory.
        text: the directory of the text in subwords.
        languages: source and target.
        bert: name of the BERT whose tokenizer reads the source text.
        bert_options: those of ``--bert-tokenizer-options``.
        bert_text: directory of what BERT reads, such as segmented text, with the same lines as in *data*.
        subwords: one of `KINDS`.
        symbols: size of the vocabulary; by default it follows from the amount of text.
        start: imports a translation model for the raw text in a directory, and returns its split of each language.
        seed: of the pairs that are put aside.
    """

    data: Path
    text: Path
    languages: Sequence[str]
    bert: Optional[str] = None
    bert_options: Optional[str] = None
    bert_text: Optional[Path] = None
    subwords: str = "sentencepiece"
    symbols: Optional[int] = None
    start: Optional[Callable[[Path], Dict[str, Split]]] = None
    seed: int = 1


def make_text(raw: RawText) -> None:
    """Check, split, learn subwords, write.

    Raises:
        BertFusedError: the text cannot be used, or the place of the output holds other things of the user.
    """
    text = raw.text
    if text.exists() and not (text / "raw").is_dir():
        raise BertFusedError(f"{text} is there and was not made by this recipe; give another --out")
    if text.resolve() in (raw.data.resolve(), *raw.data.resolve().parents):
        raise BertFusedError(f"DATA {raw.data} is inside {text}, which is made anew; give another --out")
    check(raw)
    try:
        with written_whole(text) as new:
            (new / "raw").mkdir(parents=True)
            write_text(raw, new)
    except OSError as error:
        raise BertFusedError(f"{error.filename or text} cannot be written ({error.strerror})") from None


def check(raw: RawText) -> None:
    """End with all errors of the text, and print all warnings."""
    findings = Findings()
    keeps_symbols = raw.subwords == "subword-nmt"
    pairs = check_split(paths_of(raw, "train"), findings, keeps_symbols)
    if pairs < _FEWEST and (pairs or not findings.errors):
        findings.errors.append(f"{raw.data}/train.* has {pairs} pairs; it must have at least {_FEWEST}")
    for split in given_splits(raw):
        if "," in split:
            findings.errors.append(f"{raw.data}/{split}.*: fairseq splits names at commas; rename these files")
        check_split(paths_of(raw, split), findings, keeps_symbols)
    if not findings.errors:
        warn_of_copies(raw, findings)
    read = {path.name for split in ("train", *given_splits(raw)) for path in paths_of(raw, split)}
    ends = tuple(f".{language}{packed}" for language in raw.languages for packed in ("", ".gz"))
    unread = sorted(path.name for path in raw.data.glob("*.*") if path.name.endswith(ends) and path.name not in read)
    if unread:
        findings.warnings.append(
            f"{raw.data} holds {', '.join(unread)}: not read as parallel text; only unpacked train, valid, test and "
            "test-NAME are"
        )
    source = paths_of(raw, "train")[::2][-1]
    if raw.bert is not None and os.access(source, os.R_OK):
        check_tokenizer(raw.bert, source, findings, raw.bert_options)
    findings.report()


def warn_of_copies(raw: RawText, findings: Findings) -> None:
    """Add a warning for each set of the user whose pairs, or sources, training sees."""
    sets = {split: set(read_pairs(paths_of(raw, split)[:2])) for split in given_splits(raw)}
    if not sets:
        return
    wanted = {source for pairs in sets.values() for source, _ in pairs}
    trained = filter(all, read_pairs(paths_of(raw, "train")[:2]))  # without pairs that have an empty side
    seen = {pair for pair in trained if pair[0] in wanted}
    sources = {source for source, _ in seen}
    for split, pairs in sets.items():
        copies, others = len(pairs & seen), len({source for source, _ in pairs - seen} & sources)
        if copies:
            findings.warnings.append(
                f"{raw.data}/{split}.*: {copies:,} of {len(pairs):,} different pairs are in train.*, too, which "
                "makes scores too high; remove them from train.*"
            )
        if others:
            findings.warnings.append(
                f"{raw.data}/{split}.*: the sources of {others:,} of {len(pairs):,} different pairs are in train.*, "
                "too, with another translation, which may make scores too high; consider to remove them from train.*"
            )


def given_splits(raw: RawText) -> List[str]:
    """Return which of ``valid``, ``test`` and ``test-NAME`` the user has, at least one side of it."""
    further = {path.stem for language in raw.languages for path in raw.data.glob(f"test-*.{language}")}
    splits = ("valid", "test", *sorted(further))
    return [split for split in splits if any(path.exists() for path in paths_of(raw, split)[:2])]


def paths_of(raw: RawText, split: str) -> List[Path]:
    """Return the user's files of *split*: source, target, and what BERT reads where it is another text."""
    source, target = (f"{split}.{language}" for language in raw.languages)
    return [raw.data / source, raw.data / target, *([raw.bert_text / source] if raw.bert_text else [])]


def write_text(raw: RawText, new: Path) -> None:
    """Write everything to the directory *new*."""
    train, drawn = paths_of(raw, "train"), put_aside(raw)
    splits: Dict[str, Iterable[Pair]] = {split: read_pairs(paths_of(raw, split)) for split in given_splits(raw)}
    splits.update(drawn, train=training_pairs(train, [pair for pairs in drawn.values() for pair in pairs]))
    tests = [split for split in splits if split.startswith("test")]
    for split in tests:
        splits[split] = list(splits[split])
        reference = "".join(f"{pair[1]}\n" for pair in splits[split])
        (new / f"reference.{split}.{raw.languages[1]}").write_bytes(reference.encode())
    counts = {split: write_raw(raw, new, split, pairs) for split, pairs in splits.items()}
    splits_of, subwords = splitters(raw, counts["train"], new)
    for path in sorted((new / "raw").iterdir()):
        split_file(path, new / path.name, splits_of[path.suffix[1:]])
    with (new / train[1].name).open(encoding="utf-8") as file:
        tokens = sum(len(line.split()) + 1 for line in file)
    all_pairs = sum(1 for _ in filter(all, read_pairs(train)))
    sizes = ", ".join(f"{counts[split]:,} for {split}" for split in ("valid", *tests))
    print(
        f"prepare: {counts['train']:,} of {all_pairs:,} pairs of train for training, {sizes}; "
        f"{subwords}; the target text has {tokens:,} tokens"
    )


def splitters(raw: RawText, pairs: int, new: Path) -> Tuple[Dict[str, Split], str]:
    """Return for each language the function that splits a line into subwords, and what these are."""
    if raw.start:
        return raw.start(new / "raw"), "subwords of the model of --start"
    files = [new / "raw" / f"train.{language}" for language in raw.languages]
    characters = count_characters(files) if raw.subwords == "sentencepiece" else 0  # subword-nmt has them besides
    symbols = raw.symbols or default_symbols(pairs, characters)
    split = learn(raw.subwords, files, symbols, new)
    return dict.fromkeys(raw.languages, split), f"{raw.subwords} with {symbols:,} symbols"


def put_aside(raw: RawText) -> Dict[str, List[Pair]]:
    """Return the pairs of train that become ``valid`` and ``test``, where the user has none."""
    wanted = [split for split in ("valid", "test") if split not in given_splits(raw)]
    drawn = choose_held_out(paths_of(raw, "train"), wanted, raw.seed) if wanted else {}
    if not all(drawn.values()):
        raise BertFusedError(
            f"{raw.data}/train.* has too few different sentences to put {' and '.join(wanted)} aside; give them"
        )
    drawn.update({"valid": drawn["valid"][:_VALIDATED]} if "valid" in drawn else {})
    for split, pairs in drawn.items():
        count = f"{len(pairs):,} pairs of train are"
        print(f"prepare: {count} put aside for {split} (seed {raw.seed}); their copies are left out")
    return drawn


def write_raw(raw: RawText, new: Path, split: str, pairs: Iterable[Pair]) -> int:
    """Write *pairs*, and the text for BERT; return their number."""
    folders, count = ("raw", "raw", "bert"), 0
    with ExitStack() as opened:
        files = []
        for folder, path in zip(folders, paths_of(raw, split)):
            (new / folder).mkdir(exist_ok=True)
            files.append(opened.enter_context((new / folder / path.name).open("w", encoding="utf-8", newline="\n")))
        for pair in tqdm(pairs, desc=f"reading {split}", unit=" pairs", disable=None, leave=False):
            for text, file in zip(pair, files):
                file.write(f"{text}\n")
            count += 1
    return count
