"""The raw source text of ``--bert-text``, which BERT reads instead of text rebuilt from fairseq's ids."""

import codecs
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple
from unicodedata import normalize

import numpy as np
from torch.utils.data import ConcatDataset, Dataset

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.subwords import decode_byte_bpe
from bert_fused_plugin.errors import BertFusedError

_BLOCK = 2**22  # bytes of a file that are looked at together
_LINES = 300  # of a split that are compared with the data, evenly taken
_FEWEST = 20  # lines that tell something
_LEAST = 0.25  # share of sequences of three letters that agree; 0.05 to 0.15 in other sentences of the same language


class TextFile(Dataset[str]):
    """The lines of a file, which stay on the disk until they are asked for; UnicodeDecodeError: it is not UTF-8.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: the file is not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self._bytes = np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.zeros(0, dtype=np.uint8)
        decoder, digest = codecs.getincrementaldecoder("utf-8")(), hashlib.blake2b(digest_size=32)
        ends = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(self._bytes), _BLOCK):
            block = self._bytes[start : start + _BLOCK]
            decoder.decode(block.data)
            digest.update(block.data)
            ends.append(np.flatnonzero(block == ord("\n")) + start)
        decoder.decode(b"", final=True)
        self.digest = digest.hexdigest()
        self._ends = np.concatenate(ends)
        if len(self._bytes) and self._bytes[-1] != ord("\n"):
            self._ends = np.append(self._ends, len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:
        """Return line *index* without its end; only a line feed ends a line."""
        start = int(self._ends[index - 1]) + 1 if index else 0
        encoding = "utf-8" if index else "utf-8-sig"  # a byte order mark at the start is no text
        return bytes(self._bytes[start : self._ends[index]]).decode(encoding).rstrip("\r\n")


def read_raw_text(
    directory: Optional[str], split: str, lang: str, files: Sequence[Tuple[int, int]]
) -> Optional[ConcatDataset[str]]:
    """Return the lines of ``directory/{split}.{lang}``; None without a *directory*.

    There is a text for each of the *files*, see `files_of`; that of the second one is ``{split}1.{lang}``, and so on.

    Raises:
        BertFusedError: the directory does not hold the text of each sentence.
    """
    if directory is None:
        return None
    texts: List[TextFile] = []
    for number, (size, copies) in enumerate(files):
        path = Path(directory, f"{split}{number or ''}.{lang}")
        try:
            text = TextFile(path)
        except (OSError, UnicodeDecodeError) as error:
            raise BertFusedError(
                f"--bert-text {directory}: {path} cannot be read as UTF-8 text ({error}); "
                f"give the raw source text of {split!r}, one sentence a line"
            ) from error
        if len(text) != size:
            raise BertFusedError(
                f"--bert-text {directory}: {path} has {len(text)} lines, but the binarised file has {size} sentences; "
                "give the raw text of exactly these sentences, line by line, with a file for each binarised one"
            )
        texts += [text] * copies
    return ConcatDataset(texts)


def check_raw_text(texts: Any, sentences: Any, bridge: DictionaryBridge, place: str) -> None:
    """Compare some lines of *texts*, in the file *place*, with the text of fairseq's *sentences*, by their letters.

    Raises:
        BertFusedError: hardly anything agrees.
    """
    if bridge.problem:  # the ids do not tell the text
        return
    shares: List[Tuple[float, int]] = []
    for i in range(0, len(texts), max(1, len(texts) // _LINES)):
        derived, raw = bridge.text(sentences[i]).replace("<unk>", " "), _sequences(texts[i])
        # fairseq's byte_bpe has no sign in the dictionary
        read = max(map(_sequences, (derived, decode_byte_bpe(derived))), key=lambda read: sum((read & raw).values()))
        size = min(sum(read.values()), sum(raw.values()))
        if size and any(map(str.isalpha, derived)):
            shares.append((sum((read & raw).values()) / size, i))
    share = sum(share for share, _ in shares) / len(shares) if shares else 1.0
    if len(shares) >= _FEWEST and share < _LEAST:
        _, worst = min(shares)
        raise BertFusedError(
            f"{place} must hold the raw text of the binarised sentences, line by line, but only {share:.0%} of the "
            f"letters in {len(shares)} compared lines agree: line {worst + 1} is {texts[worst][:60]!r} for "
            f"{bridge.text(sentences[worst])[:60]!r}; give the source text of exactly these sentences, in their order"
        )


def _sequences(text: str) -> "Counter[str]":
    letters = "".join(filter(str.isalnum, normalize("NFKD", text.casefold())))
    return Counter(letters[i : i + 3] for i in range(len(letters) - 2))
