"""The files of evidence, which any program can write and read: what the systems are, and how they translate.

``EVIDENCE/TESTSET/`` is a test set:

- ``reference.txt``, and ``source.txt`` where it is known: one text a line;
- ``facts.json``, a `EvaluationFacts`, where the test set is one of fairseq's.

``EVIDENCE/TESTSET/SYSTEM.SEED/`` (or ``SYSTEM/``) is a system, trained with one seed:

- ``on.txt``, its translations, one a line; for models that read BERT, those of the other states in `STATES` as well;
- ``facts.json``, a `SystemFacts`, and ``attention.json``, where it is a model of fairseq.

This module imports neither torch nor fairseq, so that who only reads evidence needs none of them.
"""

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

STATES = {
    "on": "The model is as trained.",
    "off": "Each layer uses its NMT branch alone, with weight 1, as drop-net lets it in training; stacked layers leave "
    "their attention to BERT out.",
    "shuffled": "BERT reads another sentence of the test set.",
    "random": "BERT has the same size but random weights.",
}
RARE = 5  # a word is rare if it is seen at most this often in training
UNKNOWN = "\N{APL FUNCTIONAL SYMBOL QUAD QUESTION}"  # an unknown word of a reference, which no translation matches
_SEED = re.compile(r"(.*?)(?:\.([1-9]\d*))?")  # the name of a system's folder: its name, and the number of its seed


class EvidenceError(SystemExit):
    """A setting or a file cannot be used; *errors*, sentences, are shown without a stack trace."""

    def __init__(self, *errors: str) -> None:
        super().__init__("\n".join(f"{Path(sys.argv[0]).name}: error: {error}" for error in errors))
        self.errors = errors


@dataclass(frozen=True)
class EvaluationFacts:
    """What fairseq's data tells of a test set beside its texts."""

    key: str  # a digest of all that the facts and texts follow from
    data: str = ""
    languages: Tuple[str, str] = ("", "")  # the codes of source and target
    names: Tuple[str, str] = ("", "")  # the same in English
    bleu_tokenizer: Optional[str] = None  # sacreBLEU's, of a target language without spaces between words
    reference: Optional[str] = None  # the file of the references; None if they are those of the data
    detok: str = "none"
    lower_cased: bool = False  # the target side of the data
    escaped: bool = False  # whether Moses has written characters such as &apos;
    of_subwords: bool = False  # whether *words* counts subwords
    words: Optional[List[int]] = None  # the number of words of each source
    rare: Optional[List[int]] = None  # the number of those that are rare in training; None without training data
    remarks: List[str] = field(default_factory=list)
    form: str = ""  # a digest of the sentences and of the form of texts, which systems share


@dataclass(frozen=True)
class SystemFacts:
    """What the checkpoint of a model tells of it, and how fast it translated."""

    key: str  # a digest of all that the translations follow from
    checkpoint: str
    architecture: str
    is_transformer: bool
    updates: int
    max_update: int  # of the training, 0 for no limit
    parameters: Dict[str, int]  # that train, and that are frozen
    reads_bert: bool
    drops_bert: bool  # whether it was trained with drop-net
    began_from: List[Dict[str, Any]]  # path and updates of the checkpoint, then those of what that one began from, ...
    consistency: str  # the kind of the loss, "none" of other criteria
    selection: Dict[str, Any]  # how the checkpoint was chosen
    curves: Dict[str, List[Tuple[int, float]]]  # (updates, value) by "valid bleu" and others
    states: List[str]  # of BERT that the model can be tested in
    decoding: Dict[str, Any]
    bf16: bool
    hardware: Dict[str, Any]
    speed: Dict[str, float]
    remarks: List[str] = field(default_factory=list)  # what a reader of its scores must know
    form: str = ""  # that of the test set


def read_json(path: Path) -> Dict[str, Any]:
    """Return what a file holds; nothing if there is none."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def read_lines(path: Path) -> List[str]:
    """Return the lines of a file in UTF-8; only a line feed ends a line.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: the file is not UTF-8.
    """
    *lines, rest = path.read_bytes().decode("utf-8-sig").split("\n")
    return [line.rstrip("\r") for line in (*lines, *([rest] if rest else []))]


def lines_for(flag: str, template: Path, test_set: str, is_only: bool, data: str, size: int) -> List[str]:
    """Return the lines of the file of *flag*, one for each of the *size* sentences of *test_set* in *data*.

    ``{subset}`` in its name, *template*, stands for the name of the test set, unless this *is_only* one.

    Raises:
        EvidenceError: the file cannot be read, or has another number of lines.
    """
    path = Path(str(template).replace("{subset}", test_set))
    if path == template and not is_only:
        rule = "must be a file for each test set"
        remedy = "write {subset} where their names differ, or choose one --subset"
        raise EvidenceError(f"{flag}{template} {rule}; {remedy}")
    try:
        lines = read_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{flag}{path} cannot be read as UTF-8 text ({error})") from error
    if len(lines) != size:
        raise EvidenceError(
            f"{flag}{path} has {len(lines)} lines, but {test_set!r}{data and f' of {data}'} has {size} sentences; give "
            "a file with one line for each of these sentences, in their order"
        )
    return lines


def folder_of(test_set: Path, system: str, seed: int) -> Path:
    """Return the folder of a *system*, trained with the *seed* of that number, which counts from 1."""
    return test_set / f"{system}.{seed}"


def systems_in(test_set: Path) -> Dict[str, List[Path]]:
    """Return the folders of the seeds of each system that has translations of a test set, in alphabetical order.

    Raises:
        EvidenceError: two folders are of one seed.
    """
    systems: Dict[str, Dict[int, Path]] = {}
    for folder in sorted(file.parent for file in test_set.glob("*/on.txt")):
        if match := _SEED.fullmatch(folder.name):
            seeds, seed = systems.setdefault(match[1], {}), int(match[2] or 1)
            if seed in seeds:
                raise EvidenceError(
                    f"{seeds[seed]} and {folder} are both seed {seed} of {match[1]}; rename one of them"
                )
            seeds[seed] = folder
    return {name: [seeds[seed] for seed in sorted(seeds)] for name, seeds in systems.items()}
