"""Checks of parallel text: everything that is wrong is collected with file and line."""

import codecs
import re
import sys
from array import array
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Optional, Sequence
from unicodedata import is_normalized

import numpy as np
from tqdm import tqdm

from bert_fused_plugin.bert.flags import parse_options
from bert_fused_plugin.bert.pretrained_bert import load_tokenizer
from bert_fused_plugin.errors import raise_all

_SHOWN = 5  # line numbers of one kind that are shown
_SAME = 0.5  # share of lines alike on both sides that means that a file was copied
_UNKNOWN = 0.3  # share of letters that BERT's tokenizer does not know, over which BERT cannot help
_FEW_SPACES = 0.05  # share of spaces among characters, below which the language is written without them
_SAMPLE = 5000  # lines that are given to BERT's tokenizer
_BLOCK = 300  # pairs whose lengths are compared together
_SHIFTS = (1, -1, 2, -2)  # by how many lines a file may be shifted
_FITS_BETTER = 0.3  # by how much more the lengths of pairs correlate after a shift, if there is one
_STRANGE = 2 / 3  # of the letters in a word piece of English: with fewer, a text is strange to an English encoder
_ENGLISH = (
    "The children were playing in the garden when their mother came home from work.  She had bought bread, apples and "
    "a newspaper.  It is often difficult to say why people in one country live longer than those in another; the "
    "government has promised to answer this question next year."
)
_RUSSIAN = "Дети играли в саду, когда мать вернулась домой с работы и купила хлеб.  Она часто читала газету на вокзале."
_SYMBOL = re.compile(r"<(s|/s|pad|unk)>(?!\S)")  # of fairseq; a subword may be the end of a word
_RULES = (
    "line N of one file must translate line N of the other",
    "line N of --bert-text must be line N of DATA, prepared for BERT",
)


@dataclass
class Findings:
    """What was found in the text: errors end the preparation, warnings are printed."""

    errors: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)

    def report(self) -> None:
        """Print all warnings, and raise one `BertFusedError` of all errors, if there are any."""
        for warning in self.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        raise_all(self.errors)


@dataclass
class _File:
    """A file, to be read once: how many lines, and which are no UTF-8, empty, not in NFC, with fairseq's symbols."""

    path: Path
    count: int = 0
    wrong: List[int] = field(default_factory=list)
    empty: List[int] = field(default_factory=list)
    apart: List[int] = field(default_factory=list)
    symbols: List[int] = field(default_factory=list)
    returns: int = 0  # carriage returns inside lines

    def __iter__(self) -> Iterator[Optional[str]]:
        """Yield the text of each line, or None where it is not UTF-8."""
        with self.path.open("rb") as lines:
            for self.count, line in enumerate(lines, start=1):
                text = None
                try:
                    text = line.decode("utf-8-sig" if self.count == 1 else "utf-8").strip()
                except UnicodeDecodeError:
                    self.wrong.append(self.count)
                if text == "":
                    self.empty.append(self.count)
                if text is not None and not is_normalized("NFC", text):
                    self.apart.append(self.count)
                if text and _SYMBOL.search(text):
                    self.symbols.append(self.count)
                self.returns += line.rstrip(b"\r\n").count(b"\r")
                yield text


def check_split(paths: Sequence[Path], findings: Findings, keeps_symbols: bool = False) -> int:
    """Read the files of a split, source, target and what BERT reads, and return how many lines are in all of them.

    With *keeps_symbols*, as with subword-nmt, fairseq would take a word ``</s>`` for its own symbol.
    """
    missing = [path for path in paths if not path.is_file()]
    if missing:
        there = ", ".join(sorted(path.name for path in missing[0].parent.glob("*.*"))[:8])
        findings.errors.append(
            f"{' and '.join(map(str, missing))}: there is no such file; DATA must hold {paths[0].name} and "
            f"{paths[1].name}, one sentence a line, and --bert-text, if given, {paths[0].name} as BERT reads it"
            + (f" (it holds {there})" if there else "")
        )
        return 0
    files, same, complete, lengths = [_File(path) for path in paths], [], 0, array("I")
    try:
        pairs = tqdm(zip_longest(*files), desc=f"checking {paths[0].stem}", unit=" pairs", disable=None, leave=False)
        for number, texts in enumerate(pairs, start=1):
            complete += all(texts)
            lengths.extend(len(text or "") for text in texts[:2])
            if texts[0] and texts[0] == texts[1]:
                same.append(number)
    except OSError as error:
        findings.errors.append(f"{error.filename or paths[0]} cannot be read ({error.strerror})")
        return 0
    for file, rule in zip(files[1:], _RULES):
        if file.count != files[0].count:
            counts = f"{paths[0]} has {files[0].count:,} lines and {file.path} has {file.count:,}"
            findings.errors.append(f"{counts}; {rule}")
    for number, file in enumerate(files):
        _check_lines(file, findings, keeps_symbols and number < 2)
    alike = f"{paths[0]} and {paths[1]} are the same"
    if len(same) > _SAME * min(file.count for file in files):
        findings.errors.append(f"{alike} text in {_listed(same)}; give the translations as {paths[1].name}")
    elif same:
        findings.warnings.append(f"{alike} in {_listed(same)}, which teaches the model to copy")
    findings.warnings += [
        f"{paths[0]} and {paths[1]}: in lines {first:,} to {last:,}, lengths fit those of a neighbouring line better; "
        "a line seems to be missing in one of the files"
        for first, last in _shifted(lengths)
    ]
    return complete


def check_file(path: Path, findings: Findings, keeps_symbols: bool) -> int:
    """Read a file of one language, as `check_split` reads those of two, and return how many lines it has."""
    file = _File(path)
    sum(1 for _ in tqdm(file, desc=f"checking {path.name}", unit=" lines", disable=None, leave=False))
    _check_lines(file, findings, keeps_symbols)
    return file.count


def check_for_fairseq(paths: Sequence[Path]) -> None:
    """Print warnings about the files *paths*, a split in subwords.

    Raises:
        BertFusedError: fairseq would not read them as parallel text.
    """
    findings = Findings()
    check_split(paths, findings, keeps_symbols=True)
    for path in () if findings.errors else paths:
        with path.open("rb") as opened:
            broken = [number for number, line in enumerate(opened, start=1) if b"\r" in line.rstrip(b"\r\n")]
        if broken:
            findings.errors.append(f"{path}: {_listed(broken)} have a carriage return, which ends a line for fairseq")
    findings.report()


def _shifted(lengths: Sequence[int]) -> List[List[int]]:
    """Return the first and the last lines where lengths correlate better with those of neighbours' translations.

    *lengths* are those of a line, of its translation, of the next line, and so on.
    """
    found: List[List[int]] = []
    pairs = np.asarray(lengths).reshape(-1, 2)
    for last in range(_BLOCK, len(pairs) + 1, _BLOCK):
        source, target = np.log1p(pairs[last - _BLOCK : last]).T
        with np.errstate(invalid="ignore"):  # all of one length: no correlation
            fit, *others = (np.corrcoef(source, np.roll(target, shift))[0, 1] for shift in (0, *_SHIFTS))
        if max(others) > fit + _FITS_BETTER and max(others) > 2 * _FITS_BETTER:
            first = found.pop()[0] if found and found[-1][1] == last - _BLOCK else last - _BLOCK + 1
            found.append([first, last])
    return found


def _check_lines(file: _File, findings: Findings, keeps_symbols: bool) -> None:
    if file.wrong:
        with file.path.open("rb") as content:
            encoding = "utf-16" if content.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin1"
        findings.errors.append(
            f"{file.path}: {_listed(file.wrong)} are not UTF-8; convert the file, for example with "
            f"iconv -f {encoding} -t utf-8"
        )
    if file.symbols and keeps_symbols:
        findings.errors.append(
            f"{file.path}: {_listed(file.symbols)} have a word that is or ends with <s>, </s>, <pad> or <unk>, which "
            "fairseq takes for its own symbols, such as the end of the sentence; write them otherwise, such as "
            "&lt;s&gt;, or split the text with --subwords sentencepiece"
        )
    if file.returns > file.count:
        findings.errors.append(
            f"{file.path}: its lines end with carriage returns alone; convert it with tr '\\r' '\\n' <{file.path} >NEW"
        )
    if not file.count:
        findings.errors.append(f"{file.path} is empty; it must hold one sentence a line")
    elif file.empty:
        is_training = file.path.stem in ("train", "mono")
        what = "raw text is used without them" if is_training else "they stay, and count in the scores"
        findings.warnings.append(f"{file.path}: {_listed(file.empty)} are empty; {what}")
    if file.apart:
        findings.warnings.append(
            f"{file.path}: {_listed(file.apart)} are not in Unicode's form NFC, so one letter may be several symbols; "
            "normalise all text, also new text, for example with uconv -x any-nfc"
        )


def _listed(numbers: Sequence[int]) -> str:
    first = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
    return f"{len(numbers):,} of the lines (number {first})"


def check_tokenizer(name: str, path: Path, findings: Findings, options: Optional[str] = None) -> None:
    """Add an error where the tokenizer of the BERT *name* does not know the language of the file *path*.

    The *options* are those of ``--bert-tokenizer-options``.
    """
    tokenizer = load_tokenizer(name, parse_options(options))
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        lines = [line.strip() for line in islice(file, _SAMPLE)] or [""]
    split = [tokenizer(line, add_special_tokens=False, verbose=False)["input_ids"] for line in lines]
    strange = [
        _unknown_letters(tokenizer, line) if tokenizer.unk_token_id in row else 0 for line, row in zip(lines, split)
    ]
    words = max(1, sum(len(line.split()) for line in lines))
    pieces = max(1, sum(map(len, split)))
    unknown = sum(strange) / max(1, sum(len("".join(line.split())) for line in lines))
    if unknown > _UNKNOWN:
        worst = max(range(len(lines)), key=strange.__getitem__)
        findings.errors.append(
            f"{path}: BERT {name} does not know this language: {unknown:.0%} of its letters are unknown (line "
            f"{worst + 1}: {lines[worst][:60]!r}); give a BERT of the source language, or a multilingual one: "
            "--bert xlm-roberta-base"
        )
        return
    has_words = sum(line.count(" ") for line in lines) >= _FEW_SPACES * sum(map(len, lines))
    if unknown > 0.05 or (has_words and pieces > 3 * words):
        makes = f"splits a word into {pieces / words:.1f} word pieces" if has_words else "makes word pieces"
        findings.warnings.append(
            f"{path}: BERT {name} seems to be trained for another language: it {makes}, and {unknown:.0%} of "
            "the letters are unknown; a BERT of the source language helps more"
        )
    elif has_words and _reads_english_alone(tokenizer, lines):
        findings.warnings.append(
            f"{path}: BERT {name} seems to know English, and this text seems to be of another language: it splits a "
            f"word into {pieces / words:.1f} word pieces; a BERT of the source language helps more (or are the two "
            "files swapped?)"
        )


def _reads_english_alone(tokenizer: Any, lines: Iterable[str]) -> bool:
    """Return whether *tokenizer* is made for English, neither for many languages nor for that of *lines*."""
    english, many, text = (_letters_a_piece(tokenizer, sample) for sample in ([_ENGLISH], [_RUSSIAN], lines))
    return many < english / 2 and text < _STRANGE * english


def _letters_a_piece(tokenizer: Any, lines: Iterable[str]) -> float:
    """Return how many letters a word piece has; it does not hang on the lengths of words, as pieces of a word do."""
    words = [" ".join(re.findall(r"[^\W\d_]+", line)) for line in lines]
    pieces = sum(len(tokenizer(line, add_special_tokens=False, verbose=False)["input_ids"]) for line in words)
    return sum(len(line.replace(" ", "")) for line in words) / max(1, pieces)


def _unknown_letters(tokenizer: Any, line: str) -> float:
    """Return how many letters of *line* are in unknown word pieces; a slow tokenizer tells it only for each word."""
    if tokenizer.is_fast:
        encoding = tokenizer(line, add_special_tokens=False, verbose=False, return_offsets_mapping=True)
        places = zip(encoding["input_ids"], encoding["offset_mapping"])
        return sum(end - start for piece, (start, end) in places if piece == tokenizer.unk_token_id)
    words = [(word, tokenizer(word, add_special_tokens=False, verbose=False)["input_ids"]) for word in line.split()]
    return sum(len(word) * row.count(tokenizer.unk_token_id) / max(1, len(row)) for word, row in words)
