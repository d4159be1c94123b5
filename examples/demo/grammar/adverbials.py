"""The adverbials of the lexicon, and the tenses that they go with."""

from dataclasses import dataclass
from typing import List, Sequence, Tuple

from grammar.clause import Adjunct, Modal
from grammar.lexicon import DETERMINER_OF, rows
from grammar.lexicon_adverbials import MID_ADVERBS, MODALS, MONTHS, NUMBERS, SENTENCE_ADVERBS, TIMES, UNITS, WEEKDAYS


@dataclass(frozen=True)
class Adverbial:
    """An adverbial of the lexicon.

    `aspect` says which English present it needs: the progressive (progressive), the simple present (habit), or either
    of them (empty).
    """

    text: Adjunct
    tenses: Tuple[str, ...]
    aspect: str = ""

    @staticmethod
    def read(fields: Sequence[str]) -> "Adverbial":
        """Return the adverbial of a row of the lexicon."""
        return Adverbial(Adjunct(fields[0], fields[1]), tuple(fields[2].split()), fields[3] if len(fields) > 3 else "")


def _pairs(text: str) -> List[List[str]]:
    return [entry.split() for entry in text.split("|")]


def _read_times() -> List[Adverbial]:
    times = [Adverbial.read(row) for row in rows(TIMES)]
    for english, german in _pairs(WEEKDAYS):
        times.append(Adverbial(Adjunct(f"on {english}", f"am {german}"), ("past", "future", "modal")))
    return times


def _read_numbered_times() -> List[Adverbial]:
    """Return the times with a number or a name: two days ago, in two days, at two o'clock, in May, every Monday.

    They are drawn from a list of their own, because they outnumber all others.
    """
    times = []
    for number in NUMBERS:
        german = DETERMINER_OF[number].stem
        for unit, german_unit in _pairs(UNITS):
            times.append(Adverbial(Adjunct(f"{number} {unit} ago", f"vor {german} {german_unit}"), ("past",)))
            times.append(Adverbial(Adjunct(f"in {number} {unit}", f"in {german} {german_unit}"), ("future",)))
        times.append(Adverbial(Adjunct(f"at {number} o'clock", f"um {german} Uhr"), ("past", "future", "modal")))
    for english, german in _pairs(MONTHS):
        times.append(Adverbial(Adjunct(f"in {english}", f"im {german}"), ("past", "future")))
    for english, german in _pairs(WEEKDAYS):
        times.append(Adverbial(Adjunct(f"every {english}", f"jeden {german}"), ("present", "past"), "habit"))
    return times


def _read_modals() -> List[Modal]:
    modals = []
    for row in rows(MODALS):
        english, auxiliary, rest, german = row[:4]
        modals.append(Modal(english, auxiliary, rest, tuple(german.split()), row[4:] == ["n"]))
    return modals


TIME_ADVERBIALS = _read_times()
NUMBERED_TIMES = _read_numbered_times()
MIDDLE_ADVERBS = [Adverbial.read(row) for row in rows(MID_ADVERBS)]
SENTENCE_ADVERBIALS = [Adverbial.read(row) for row in rows(SENTENCE_ADVERBS)]
MODAL_VERBS = _read_modals()
