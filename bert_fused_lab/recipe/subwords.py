"""Splits text into subwords that are learned from the training text of both languages together."""

import math
import sys
from contextlib import redirect_stderr
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Callable, Iterator, Sequence, Set, Tuple

import sentencepiece
from tqdm import tqdm

from bert_fused_plugin.errors import BertFusedError

KINDS = ("sentencepiece", "subword-nmt")
_LEARN_FROM = 2_000_000  # sentences, evenly taken from the training text of both languages

Split = Callable[[str], str]


def default_symbols(pairs: int, characters: int = 0) -> int:
    """Return the size of the joint vocabulary for a number of training *pairs* (docs/tuning.md).

    Each of the different *characters* of the text must be a symbol.  Chinese and Japanese have thousands; then half as
    many symbols again are left for longer pieces.
    """
    limits = ((5_000, 2_000), (20_000, 4_000), (300_000, 8_000), (2_000_000, 16_000))
    by_size = next((symbols for limit, symbols in limits if pairs < limit), 32_000)
    return max(by_size, math.ceil(1.5 * characters))


def count_characters(files: Sequence[Path]) -> int:
    """Return the number of different characters in those lines of *files* that subwords are learned from."""
    characters: Set[str] = set()
    for line in _evenly(files):
        characters.update(line.rstrip("\n"))
    return len(characters)


def learn(kind: str, files: Sequence[Path], symbols: int, folder: Path) -> None:
    """Learn subwords from *files*, training text in both languages, and write ``sentencepiece.model`` or ``codes``.

    *symbols* is the size of the vocabulary (sentencepiece), or the number of merges (subword-nmt).

    Raises:
        BertFusedError: the text is too small for so many symbols.
    """
    (_sentencepiece if kind == "sentencepiece" else _subword_nmt)(files, symbols, folder)


def learned(kind: str, folder: Path) -> Split:
    """Return the function that splits a line into the subwords that `learn` has left in *folder*."""
    if kind == "sentencepiece":
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
        return lambda line: " ".join(model.encode(line, out_type=str))
    from subword_nmt.apply_bpe import BPE

    with (folder / "codes").open(encoding="utf-8") as file:
        return BPE(file).process_line


def split_file(path: Path, output: Path, split: Split) -> None:
    """Write the lines of *path*, split into subwords, to *output*."""
    with path.open(encoding="utf-8", newline="\n") as lines, output.open("w", encoding="utf-8", newline="\n") as out:
        for line in tqdm(lines, desc=f"subwords of {path.name}", unit=" lines", disable=None, leave=False):
            out.write(split(line.rstrip("\n")) + "\n")


def count(path: Path) -> Tuple[int, int]:
    """Return the numbers of lines and of tokens of a text in subwords."""
    with path.open(encoding="utf-8", newline="\n") as file:
        tokens = [len(line.split()) for line in file]
    return len(tokens), sum(tokens)


def _sentencepiece(files: Sequence[Path], symbols: int, folder: Path) -> None:
    prefix, rules = folder / "sentencepiece", folder / "rules.tsv"
    # Spaces of all kinds become U+0020, as in the training text: fairseq would lose them.  Nothing else changes; the
    # default rules would change the text, Persian half-spaces for example.
    spaces = (code for code in range(sys.maxunicode + 1) if chr(code).isspace() and code != 0x20)
    rules.write_text("".join(f"{code:X}\t20\n" for code in spaces), encoding="utf-8")
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line.rstrip("\n") for line in _evenly(files)),
            model_prefix=str(prefix),
            vocab_size=symbols,
            hard_vocab_limit=False,  # a small text has fewer
            character_coverage=1.0,
            normalization_rule_tsv=str(rules),
            minloglevel=1,
        )
    except (RuntimeError, ValueError) as error:
        raise BertFusedError(
            f"sentencepiece cannot make --symbols {symbols} of this text ({error}); give another number"
        ) from None
    rules.unlink()


def _subword_nmt(files: Sequence[Path], symbols: int, folder: Path) -> None:
    from subword_nmt.learn_bpe import learn_bpe

    # it says that a small text has fewer
    with (folder / "codes").open("w", encoding="utf-8") as out, redirect_stderr(StringIO()):
        learn_bpe(_evenly(files), out, symbols)


def _evenly(files: Sequence[Path]) -> Iterator[str]:
    """Yield lines of all files, each n-th one where there are more than are needed to learn subwords."""
    for path in files:
        with path.open("rb") as file:
            count = sum(1 for _ in file)
        step = max(1, count * len(files) // _LEARN_FROM)
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from islice(file, 0, None, step)
