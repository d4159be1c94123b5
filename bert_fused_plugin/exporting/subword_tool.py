"""The subword tool as a part of an exported model's directory: fairseq's ``--bpe`` and the files that it needs.

With other codes than those of the training data, or another sentencepiece model, nothing fails: the model gets pieces
that it does not know, or knows from other words, and translates badly.  So the tool must restore known subwords.
"""

import re
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders import build_bpe

from bert_fused_plugin.data.data_bin import read_whole
from bert_fused_plugin.data.subwords import SUBWORDS
from bert_fused_plugin.errors import BertFusedError, flag_name
from bert_fused_plugin.models.hub import GPT2_FILES

Bpe = Optional[Dict[str, Any]]  # fairseq's settings of --bpe
Files = List[Tuple[Path, str]]  # what is copied into the directory, and its name there

_ENOUGH = 0.9  # the right file restores nearly all, but not what subword-nmt's --vocabulary has split further
_MOST_SYMBOLS, _MOST_LINES = 20_000, 1_000
_FILLER = re.compile(r"madeupword\d+")  # fairseq fills a dictionary up with these


class _Tool(NamedTuple):
    """A kind of fairseq's ``--bpe``.

    Attributes:
        files: for each setting that names a file, the name of that file in the directory.
        flag: our flag that gives the file; None if the files are always those of the training.
    """

    files: Dict[str, str]
    flag: Optional[str] = None


# fairseq's hub expects the files of these names, except those of gpt2, which `bert_fused_plugin.models.hub` finds
_TOOLS = {
    "subword_nmt": _Tool({"bpe_codes": "bpecodes"}, "--codes"),
    "sentencepiece": _Tool({"sentencepiece_model": "sentencepiece.bpe.model"}, "--sentencepiece-model"),
    "gpt2": _Tool(GPT2_FILES),
    "hf_byte_bpe": _Tool({"bpe_vocab": "vocab.json", "bpe_merges": "merges.txt"}),
}
FLAGS = [tool.flag for tool in _TOOLS.values() if tool.flag is not None]


def choose_tool(trained: Bpe, given: Dict[str, Path], errors: List[str]) -> Tuple[Bpe, Files]:
    """Return the settings of ``--bpe`` and the files for the directory.

    Args:
        trained: what the training used, which is the default.
        given: the file of a tool, by the tool's name.
        errors: list to which a sentence is added for each file that is missing.
    """
    kind = next(iter(given), trained["_name"] if trained else None)
    if kind not in _TOOLS:
        return trained, []
    tool, settings = _TOOLS[kind], dict(trained) if trained and trained["_name"] == kind else {}
    settings["_name"] = kind
    files: Files = []
    for setting, name in tool.files.items():
        path = given.get(kind) or settings[setting]
        if "://" in str(path):  # fairseq downloads it
            continue
        files.append((Path(path), name))
        if not Path(path).is_file():
            what = tool.flag or f"--bpe {kind} {flag_name(setting)}"
            errors.append(f"{what} {path}: no such file; give the one that the training data was split with")
        # fairseq's hub writes the path of the file here; otherwise it says that the file of this name is not found.
        settings[setting] = f"./{name}" if tool.flag is None else f"{name}, which belongs into the model's directory,"
    return settings, files


def name_files(settings: Dict[str, Any], bpe: Bpe) -> None:
    """Let *settings*, the flags of a model, name the files as *bpe* does: the model's bridge may read them, too."""
    if bpe is not None and settings.get("bpe") == bpe["_name"] and bpe["_name"] in _TOOLS:
        settings.update({setting: bpe[setting] for setting in _TOOLS[bpe["_name"]].files if setting in settings})


def readme_flags(bpe: Bpe) -> List[str]:
    """Return the flags of fairseq-interactive for the tool in the directory DIR."""
    if bpe is None or bpe["_name"] not in _TOOLS:
        return []
    files = {setting: name for setting, name in _TOOLS[bpe["_name"]].files.items() if "://" not in str(bpe[setting])}
    return [f"--bpe {bpe['_name']}", *(f"{flag_name(setting)} DIR/{name}" for setting, name in files.items())]


def check_tool(bpe: Any, files: Files, dictionary: Dictionary, text: Optional[Any]) -> None:
    """Split what is known to have come from the subword tool of the training, and compare.

    Args:
        bpe: fairseq's settings of ``--bpe``.
        files: the files of the tool, for the message.
        dictionary: the source dictionary.
        text: the data set of `source_text`; None if there is none.

    Raises:
        BertFusedError: The file cannot be read, or it splits the words of the dictionary, or the sentences, otherwise.
    """
    tool = f"{_TOOLS[bpe._name].flag or '--bpe ' + bpe._name} {' '.join(str(path) for path, _ in files)}"
    remedy = "give the file that the training data was split with"
    encoder = _built(bpe, tool, remedy)
    lines = {"the words of the source dictionary": _words(bpe._name, encoder, dictionary)}
    if text is not None:
        lines["the source sentences of the data"] = _sentences(text, dictionary)
    for what, known in lines.items():
        split = [encoder.encode(encoder.decode(" ".join(line))).split() for line in known]
        if _likeness(known, split) < _ENOUGH:
            example = next((line, new) for line, new in zip(known, split) if line != new)
            one, other = (" ".join(line[:8]) for line in example)
            raise BertFusedError(
                f"{tool} restores {_likeness(known, split):.1%} of {what}, and at least {_ENOUGH:.0%} are needed: "
                f"{one!r} becomes {other!r}, so the model would get other pieces than in training; {remedy}"
            )


def source_text(data: str, source: str, target: str, dictionary: Dictionary) -> Optional[Any]:
    """Return the source side of the first of the validation and the test set that the directory *data* has.

    The training set is left out, because its subwords may have been drawn at random.
    """
    for split in ("valid", "test"):
        for pair in (f"{source}-{target}", f"{target}-{source}"):
            path = Path(data, f"{split}.{pair}.{source}")
            if Path(f"{path}.idx").is_file() or path.is_file():  # binarised, or as text
                try:
                    return data_utils.load_indexed_dataset(str(path), dictionary)
                except ValueError:  # fairseq maps no empty file
                    continue
    return None


def _built(bpe: Any, tool: str, remedy: str) -> Any:
    try:
        return build_bpe(bpe)
    except ImportError as error:
        raise BertFusedError(f"{tool} needs a package that is missing: {error}") from error
    except (Exception, SystemExit) as error:  # subword-nmt ends the program at a line that is no code
        reason = " ".join(str(error).split())[:200]
        raise BertFusedError(f"{tool} cannot be read as what the flag is for ({reason}); {remedy}") from error


def _words(kind: str, encoder: Any, dictionary: Dictionary) -> List[List[str]]:
    """Return the symbols that are whole words of several letters; the right file does not split these.

    Numbers are no words.  All symbols are returned if the dictionary cannot be that of a sentencepiece model, which
    restores none of them.
    """
    symbols = dictionary.symbols[dictionary.nspecial : dictionary.nspecial + _MOST_SYMBOLS]
    symbols = [symbol for symbol in symbols if not _FILLER.fullmatch(symbol)]
    if kind in SUBWORDS["numbers"].bpe:
        return []
    if kind == "sentencepiece":
        marked = [symbol for symbol in symbols if not SUBWORDS[kind].goes_on("", symbol)]
        return [[symbol] for symbol in marked if len(symbol) > 2] if marked else [[symbol] for symbol in symbols]
    mark = encoder.bpe_symbol.strip()  # @@
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
