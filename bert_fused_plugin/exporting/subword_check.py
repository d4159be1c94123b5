"""Checks that the subword tool of an exported model splits text as its training data was split.

With other codes, or another sentencepiece model, nothing fails: the model gets pieces that it does not know, or
knows from other words, and translates badly.
"""

import re
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, List, Sequence

from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders import build_bpe

from bert_fused_plugin.data.data_bin import read_whole
from bert_fused_plugin.data.subwords import SUBWORDS
from bert_fused_plugin.errors import BertFusedError

_ENOUGH = 0.9  # the right file restores nearly all, but not what subword-nmt's --vocabulary has split further
_MOST_SYMBOLS, _MOST_LINES = 20_000, 1_000
_FILLER = re.compile(r"madeupword\d+")  # fairseq fills a dictionary up with these


def check_subwords(cfg: Any, dictionary: Dictionary, texts: Sequence[Any], file: str) -> None:
    """Split what is known to have come from the subword tool of the training, and compare.

    Args:
        cfg: fairseq's settings of ``--bpe``.
        dictionary: the source dictionary.
        texts: data sets of binarised source sentences, which the right file splits in the same way.
        file: the flag and the path of the tool's file, for the message.

    Raises:
        BertFusedError: The file cannot be read, or it splits the words of the dictionary, or the sentences, otherwise.
    """
    remedy = "give the file that the training data was split with"
    bpe = _built(cfg, file, remedy)
    lines = {"the words of the source dictionary": _words(cfg._name, bpe, dictionary)}
    for text in texts:
        lines["the source sentences of the data"] = _sentences(text, dictionary)
    for what, known in lines.items():
        split = [bpe.encode(bpe.decode(" ".join(line))).split() for line in known]
        if _likeness(known, split) < _ENOUGH:
            example = next((line, new) for line, new in zip(known, split) if line != new)
            one, other = (" ".join(line[:8]) for line in example)
            raise BertFusedError(
                f"{file} restores {_likeness(known, split):.1%} of {what}, and at least {_ENOUGH:.0%} are needed: "
                f"{one!r} becomes {other!r}, so the model would get other pieces than in training; {remedy}"
            )


def source_texts(data: str, source: str, target: str, dictionary: Dictionary) -> List[Any]:
    """Return the source side of the first of the validation and the test set that the directory *data* has.

    The training set is left out, because its subwords may have been drawn at random.
    """
    for split in ("valid", "test"):
        for pair in (f"{source}-{target}", f"{target}-{source}"):
            path = Path(data, f"{split}.{pair}.{source}")
            if Path(f"{path}.idx").is_file() or path.is_file():  # binarised, or as text
                try:
                    return [data_utils.load_indexed_dataset(str(path), dictionary)]
                except ValueError:  # fairseq maps no empty file
                    continue
    return []


def _built(cfg: Any, file: str, remedy: str) -> Any:
    try:
        return build_bpe(cfg)
    except ImportError as error:
        raise BertFusedError(f"{file} needs a package that is missing: {error}") from error
    except (Exception, SystemExit) as error:  # subword-nmt ends the program at a line that is no code
        reason = " ".join(str(error).split())[:200]
        raise BertFusedError(f"{file} cannot be read as what the flag is for ({reason}); {remedy}") from error


def _symbols(dictionary: Dictionary) -> List[str]:
    symbols = dictionary.symbols[dictionary.nspecial : dictionary.nspecial + _MOST_SYMBOLS]
    return [symbol for symbol in symbols if not _FILLER.fullmatch(symbol)]


def _words(kind: str, bpe: Any, dictionary: Dictionary) -> List[List[str]]:
    """Return the symbols that are whole words of several letters; the right file does not split these.

    Numbers are no words.  All symbols are returned if the dictionary cannot be that of a sentencepiece model, which
    restores none of them.
    """
    symbols = _symbols(dictionary)
    if kind in SUBWORDS["numbers"].bpe:
        return []
    if kind == "sentencepiece":
        marked = [symbol for symbol in symbols if symbol.startswith("\u2581")]
        return [[symbol] for symbol in marked if len(symbol) > 2] if marked else [[symbol] for symbol in symbols]
    mark = bpe.bpe_symbol.strip()  # @@
    return [[symbol] for symbol in symbols if not symbol.endswith(mark) and len(symbol) > 1]


def _sentences(text: Any, dictionary: Dictionary) -> List[List[str]]:
    """Return the first sentences of *text* without unknown words, as symbols."""
    text = read_whole(text)
    rows = (text[index].tolist() for index in range(len(text)))
    known = (row for row in rows if dictionary.unk() not in row)
    return [[dictionary[token] for token in row if token != dictionary.eos()] for row in islice(known, _MOST_LINES)]


def _likeness(known: Sequence[Sequence[str]], split: Sequence[Sequence[str]]) -> float:
    """Return the share of symbols that both have, line by line."""
    same = sum(sum((Counter(one) & Counter(other)).values()) for one, other in zip(known, split))
    return same / max(1, sum(max(len(one), len(other)) for one, other in zip(known, split))) if known else 1.0
