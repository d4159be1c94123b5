"""Checks of raw parallel text: everything that is wrong is collected with file and line."""

from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import List, Optional, Sequence

from tqdm import tqdm

_SHOWN = 5  # line numbers of one kind that are shown
_SAME = 0.5  # share of lines alike on both sides that means that a file was copied
_UNKNOWN = 0.3  # share of words that BERT's tokenizer does not know, over which BERT cannot help
_FEW_SPACES = 0.05  # share of spaces among characters, below which the language is written without them
_SAMPLE = 5000  # lines that are given to BERT's tokenizer


@dataclass
class Findings:
    """What was found in the text: errors end the preparation, warnings are printed."""

    errors: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)


@dataclass
class _Lines:
    """The number of lines with one peculiarity, and the first of them."""

    count: int = 0
    first: List[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(number)

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.first)) + (", ..." if self.count > len(self.first) else "")
        return f"{self.count:,} of the lines (number {numbers})"


@dataclass
class _Side:
    """A file, the number of its lines, and which of them are no UTF-8 or empty."""

    path: Path
    count: int = 0
    wrong: _Lines = field(default_factory=_Lines)
    empty: _Lines = field(default_factory=_Lines)

    def read(self, raw: Optional[bytes], number: int) -> Optional[str]:
        """Return the text of a line, or None if it cannot be read or the file has ended."""
        if raw is None:
            return None
        self.count += 1
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            self.wrong.add(number)
            return None
        if not text:
            self.empty.add(number)
        return text


def check_split(data: Path, split: str, languages: Sequence[str], findings: Findings) -> int:
    """Read *split* of both languages once, add what is wrong to *findings*, and return how many pairs have both sides.

    Args:
        data: directory with ``{split}.{language}``.
        split: ``train``, ``valid`` or ``test``.
        languages: source language and target language.
        findings: errors and warnings so far.
    """
    paths = [data / f"{split}.{language}" for language in languages]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        there = sorted(path.name for path in data.glob("*.*"))[:8] if data.is_dir() else []
        findings.errors.append(
            f"{' and '.join(map(str, missing))}: there is no such file; DATA must hold "
            f"{split}.{languages[0]} and {split}.{languages[1]}, one sentence a line"
            + (f" (it holds {', '.join(there)})" if there else "")
        )
        return 0
    try:
        return _check_files(paths, split, findings)
    except OSError as error:
        findings.errors.append(f"{error.filename or paths[0]} cannot be read ({error.strerror})")
        return 0


def _check_files(paths: Sequence[Path], split: str, findings: Findings) -> int:
    sides, same, incomplete = [_Side(path) for path in paths], _Lines(), 0
    size = sum(path.stat().st_size for path in paths)
    bar = tqdm(total=size, desc=f"checking {split}", unit="B", unit_scale=True, disable=None, leave=False)
    with paths[0].open("rb") as source, paths[1].open("rb") as target, bar:
        for number, pair in enumerate(zip_longest(source, target), start=1):
            bar.update(sum(map(len, filter(None, pair))))
            texts = [side.read(raw, number) for side, raw in zip(sides, pair)]
            incomplete += None not in texts and not all(texts)
            if texts[0] and texts[0] == texts[1]:
                same.add(number)
    _report(sides, split, same, findings)
    return min(side.count for side in sides) - incomplete


def _report(sides: Sequence[_Side], split: str, same: _Lines, findings: Findings) -> None:
    counts, (source, target) = [side.count for side in sides], sides
    if counts[0] != counts[1]:
        findings.errors.append(
            f"{source.path} has {counts[0]:,} lines and {target.path} has {counts[1]:,}; line N of one file must "
            "translate line N of the other"
        )
    for side in sides:
        if side.wrong.count:
            findings.errors.append(
                f"{side.path}: {side.wrong} are not UTF-8; convert the file, for example with iconv -f latin1 -t utf-8"
            )
        if not side.count:
            findings.errors.append(f"{side.path} is empty; it must hold one sentence a line")
        elif side.empty.count:
            what = "these pairs are left out" if split == "train" else "they stay, and count in the scores"
            findings.warnings.append(f"{side.path}: {side.empty} are empty; {what}")
    alike = f"{source.path} and {target.path} are the same"
    if same.count > _SAME * max(1, min(counts)):
        findings.errors.append(f"{alike} text in {same}; give the translations as {target.path.name}")
    elif same.count:
        findings.warnings.append(f"{alike} in {same}, which teaches the model to copy")


def check_bert_text(source: Path, text: Path, findings: Findings) -> None:
    """Add an error unless the file *text*, which BERT reads, has a line for each line of *source*."""
    try:
        lines = sum(1 for _ in text.open(encoding="utf-8", newline="\n"))
        expected = sum(1 for _ in source.open("rb"))
    except (OSError, UnicodeDecodeError) as error:
        findings.errors.append(
            f"{text} cannot be read as UTF-8 text ({error}); BERT_TEXT must hold the lines of {source} as "
            "BERT reads them"
        )
        return
    if lines != expected:
        findings.errors.append(
            f"{text} has {lines:,} lines and {source} has {expected:,}; line N of BERT_TEXT must be line N of DATA, "
            "prepared for BERT"
        )


def check_tokenizer(name: str, path: Path, findings: Findings) -> None:
    """Add an error where the tokenizer of the BERT *name* does not know the language of the file *path*."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # a damaged file can raise anything
        reason = " ".join(str(error).split())[:200]
        findings.errors.append(f"BERT={name} cannot be loaded ({reason}); give a model directory or a name on the hub")
        return
    words = spaces = characters = pieces = unknown = worst = 0
    example = ""
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        lines = [line.strip() for line in islice(file, _SAMPLE)]
    for number, line in enumerate(lines, start=1):
        ids = tokenizer(line, add_special_tokens=False)["input_ids"]
        strange = sum(piece == tokenizer.unk_token_id for piece in ids)
        words, pieces, unknown = words + len(line.split()), pieces + len(ids), unknown + strange
        spaces, characters = spaces + line.count(" "), characters + len(line)
        if strange > worst:
            worst, example = strange, f"line {number}: {line[:60]!r}"
    if unknown > _UNKNOWN * max(1, pieces):
        findings.errors.append(
            f"{path}: BERT={name} does not know this language: {unknown / pieces:.0%} of its word pieces are unknown "
            f"({example}); give a BERT of the source language, or a multilingual one: BERT=bert-base-multilingual-cased"
        )
        return
    has_words = spaces >= _FEW_SPACES * characters
    if unknown > 0.05 * max(1, pieces) or (has_words and pieces > 3 * max(1, words)):
        split = f"splits a word into {pieces / max(1, words):.1f} word pieces" if has_words else "makes word pieces"
        findings.warnings.append(
            f"{path}: BERT={name} seems to be trained for another language: it {split}, "
            f"{unknown / max(1, pieces):.0%} of them unknown; a BERT of the source language helps more"
        )
