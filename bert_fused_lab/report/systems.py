"""What the report reads: test sets, and the systems that translate them."""

from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from bert_fused_lab.evidence.files import STATES, EvaluationFacts, EvidenceError, SystemFacts, read_json, read_lines


class Origin(NamedTuple):
    """Path and number of updates, as far as they are known, of a checkpoint that a training began with."""

    path: Optional[str]
    updates: Optional[int]

    def __str__(self) -> str:
        place = self.path or "another checkpoint"
        return f"{place} after {'an unknown number of' if self.updates is None else f'{self.updates:,}'} updates"


@dataclass
class System:
    """A system of the report, with its translations of one test set.

    All seeds count in its scores; all else is that of its first seed.  Systems of other programs have no *facts*.
    """

    name: str
    texts: List[List[str]]  # of each seed
    states: Dict[str, List[str]] = field(default_factory=dict)  # of the first seed, by the state of BERT
    facts: Optional[SystemFacts] = None
    folder: Path = Path()  # of the first seed
    checkpoints: List[str] = field(default_factory=list)  # of each seed
    forms: List[str] = field(default_factory=list)  # of each seed
    keys: List[str] = field(default_factory=list)  # of each seed

    @property
    def known(self) -> SystemFacts:
        """The facts, of a system that has some."""
        assert self.facts is not None
        return self.facts

    @property
    def reads_bert(self) -> bool:
        """Whether it is a model that attends to BERT."""
        return self.facts is not None and self.facts.reads_bert

    @property
    def attention(self) -> Dict[str, Any]:
        """What the evidence has of its attention, as it is now."""
        return {"entropy": {}, "too_even": [], "alphas": {}, "maps": {}, **read_json(self.folder / "attention.json")}

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the first seed."""
        return Path(self.known.checkpoint)

    @property
    def origins(self) -> List[Origin]:
        """The checkpoint that the training began from, then the one that that one began from, ..."""
        return [Origin(**origin) for origin in self.known.began_from]


def described(origins: Sequence[Origin]) -> str:
    """Return *origins* as words: "began from A after 10 updates, which began from B after 20 updates"; "" for none."""
    return ", which ".join(f"began from {origin}" for origin in origins)


@dataclass
class EvaluationSet:
    """The texts of a test set, and what is known about it."""

    name: str
    references: List[str]
    sources: List[str]
    facts: EvaluationFacts

    def shown(self, text: str) -> str:
        """Return a text as people write it."""
        return unescape(text) if self.facts.escaped else text


def read_test_set(folder: Path) -> EvaluationSet:
    """Return the test set in a *folder* of evidence.

    Raises:
        EvidenceError: there are no references, or a file cannot be read.
    """
    try:
        references = read_lines(folder / "reference.txt")
        if not references:
            raise ValueError("reference.txt is empty")
        sources = read_lines(folder / "source.txt") if (folder / "source.txt").exists() else []
        if sources and len(sources) != len(references):
            raise ValueError(f"source.txt has {len(sources)} lines, and reference.txt {len(references)}")
        facts = EvaluationFacts(**{"key": "", **read_json(folder / "facts.json")})
    except (OSError, ValueError, TypeError) as error:  # text that is not UTF-8, or facts of another version
        raise EvidenceError(
            f"the test set {folder} cannot be read ({error}); give it reference.txt, in UTF-8 with one reference a "
            "line, source.txt only with a line for each, and facts.json only as bert-fused-evidence writes it"
        ) from error
    return EvaluationSet(folder.name, references, sources, facts)


def read_system(name: str, folders: Sequence[Path]) -> System:
    """Return the system that has a folder of evidence for each seed.

    Raises:
        EvidenceError: a file cannot be read.
    """
    first, *_ = folders
    try:
        known = [read_json(folder / "facts.json") for folder in folders]
        return System(
            name,
            [read_lines(folder / "on.txt") for folder in folders],
            {state: read_lines(file) for state in STATES if (file := first / f"{state}.txt").exists()},
            SystemFacts(**known[0]) if known[0] else None,
            first,
            *([facts.get(name, "") for facts in known if facts] for name in ("checkpoint", "form", "key")),
        )
    except (OSError, ValueError, TypeError) as error:  # text that is not UTF-8, or facts of another version
        raise EvidenceError(f"the translations of {name} in {first.parent} cannot be read ({error})") from error
