"""``--bert-text``: the raw source text, in place of the one rebuilt from fairseq's ids."""

import os
from typing import List, Optional

from bert_fused_plugin.errors import BertFusedError


def read_raw_text(directory: Optional[str], split: str, lang: str, size: int) -> Optional[List[str]]:
    """Return the *size* lines of ``directory/{split}.{lang}``; None without a *directory*.

    Raises:
        BertFusedError: it is not the text of *size* sentences.
    """
    if directory is None:
        return None
    path = os.path.join(directory, f"{split}.{lang}")
    try:
        with open(path, encoding="utf-8", newline="\n") as lines:
            texts = [line.rstrip("\r\n") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        raise BertFusedError(
            f"--bert-text {directory}: {path} cannot be read as UTF-8 text ({error}); "
            f"it must hold the raw source text of {split!r}, one sentence a line"
        ) from error
    if len(texts) != size:
        raise BertFusedError(
            f"--bert-text {directory}: {path} has {len(texts)} lines, the binarised {split!r} has "
            f"{size} sentences; it must be the raw text of exactly these sentences, line by line"
        )
    return texts
