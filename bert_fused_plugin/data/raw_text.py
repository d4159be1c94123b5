"""The raw source text of ``--bert-text``, which BERT reads instead of text rebuilt from fairseq's ids."""

from itertools import count, takewhile
from pathlib import Path
from typing import List, Optional

from bert_fused_plugin.errors import BertFusedError


def read_raw_text(
    directory: Optional[str], split: str, lang: str, size: int, *, combine: bool = False, upsample: int = 1
) -> Optional[List[str]]:
    """Return the *size* lines of ``directory/{split}.{lang}``; None without a *directory*.

    Args:
        directory: directory of ``--bert-text``.
        split: name of the split, such as ``train``.
        lang: source language.
        size: number of sentences in the binarised *split*.
        combine: whether to add the lines of ``{split}1``, ``{split}2``, ... if they exist, as fairseq does for
            training.
        upsample: number of times that the lines of ``{split}`` come before such others (``--upsample-primary``).

    Raises:
        BertFusedError: the directory does not hold the text of *size* sentences.
    """
    if directory is None:
        return None
    folder = Path(directory)
    files = [folder / f"{split}.{lang}"]
    if combine:
        files += takewhile(Path.exists, (folder / f"{split}{k}.{lang}" for k in count(1)))
    primary, *others = [_lines(file, directory, split) for file in files]
    texts = primary * (upsample if others else 1) + [line for lines in others for line in lines]
    if len(texts) != size:
        has = f"{' and '.join(map(str, files))} {'have' if others else 'has'} {len(texts)} lines"
        if upsample > 1 and others:
            has += f" (--upsample-primary {upsample})"
        raise BertFusedError(
            f"--bert-text {directory}: {has}, but the binarised {split!r} has {size} sentences; give the raw text of "
            "exactly these sentences, line by line, with a file for each binarised one"
        )
    return texts


def _lines(path: Path, directory: str, split: str) -> List[str]:
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            return [line.rstrip("\r\n") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        raise BertFusedError(
            f"--bert-text {directory}: {path} cannot be read as UTF-8 text ({error}); "
            f"give the raw source text of {split!r}, one sentence a line"
        ) from error
