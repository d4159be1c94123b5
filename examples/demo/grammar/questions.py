"""Questions.  Each method draws one kind of question, or returns None if the draw does not fit."""

from dataclasses import replace
from typing import Dict, Optional, Tuple

from grammar.clause import Clause
from grammar.clause_sampler import ClauseSampler, is_alive, is_person
from grammar.noun_phrase import NounPhrase, Phrase

Pair = Optional[Tuple[str, str]]
WHO = Phrase(("who", "whom", "wer", "wen", "wem"))
WHAT = Phrase(("what", "what", "was", "was", "was"))
MEASURES = ("old", "tall", "expensive", "deep", "long", "big", "heavy", "high", "dangerous", "important", "strong")


class Questions:
    """Yes-no questions and questions with a question word."""

    def __init__(self, clauses: ClauseSampler) -> None:
        self.clauses = clauses
        self.dice = clauses.dice

    def yes_no(self) -> Pair:
        """Draw a question such as `Is the man reading the book?`."""
        clause = self.clauses.clause(adverbials=0.7) if self.dice.chance(0.85) else self.clauses.copula()
        if not _can_be_asked(clause):
            return None
        return f"{clause.english(question=True)} ?", f"{clause.german_question()} ?"

    def subject(self) -> Pair:
        """Draw a question such as `Who is reading the book?`."""
        clause = self.clauses.clause(subject=self.clauses.phrases.name(), adverbials=0.5)
        if not _can_be_asked(clause):
            return None
        clause = replace(clause, subject=WHO)
        return f"{clause.english()} ?", f"{clause.german_statement()} ?"

    def object(self) -> Pair:
        """Draw a question such as `What is the man reading?` or `Whom does the girl help?`."""
        clause = self.clauses.clause(patterns={"transitive": 3, "dative": 1}, adverbials=0.4)
        if clause.object is None or not _can_be_asked(clause):
            return None
        person = is_person(clause.object)
        if not person and (is_alive(clause.object) or clause.object_case == "dat"):
            return None
        word, gap = WHO if person else WHAT, clause.without_object()
        german = f"{word.german(clause.object_case)} {gap.german_question()} ?"
        return f"{word.english('acc')} {gap.english(question=True)} ?", german

    def which(self) -> Pair:
        """Draw a question such as `Which book is the man reading?`."""
        clause = self.clauses.clause(patterns={"transitive": 1}, adverbials=0.4)
        thing = clause.object
        if not isinstance(thing, NounPhrase) or thing.noun is None or not _can_be_asked(clause):
            return None
        if thing.noun.is_mass or thing.noun.kind == "elder" or "indefinite" in clause.verb.extras:
            return None
        asked, gap = NounPhrase.build(thing.noun, "which", thing.plural), clause.without_object()
        return f"{asked.english()} {gap.english(question=True)} ?", f"{asked.german('acc')} {gap.german_question()} ?"

    def adverbial(self) -> Pair:
        """Draw a question with where, when or why."""
        clause = self.clauses.clause(adverbials=0.5)
        if not _can_be_asked(clause):
            return None
        choices: Dict[Tuple[str, str], Clause] = {}
        if clause.time is None:
            choices["why", "warum"] = clause
            if not clause.progressive and not clause.verb.english.stative:
                choices["when", "wann"] = clause
        if clause.verb.pattern in ("motion", "travel"):
            choices["where", "wohin"] = replace(clause, places=())
        elif clause.verb.pattern in ("stay", "position") or (clause.places and "place" in clause.verb.extras):
            choices["where", "wo"] = replace(clause, places=())
        if not choices:
            return None
        english, german = self.dice.pick(list(choices))
        asked = choices[english, german]
        return f"{english} {asked.english(question=True)} ?", f"{german} {asked.german_question()} ?"

    def measure(self) -> Pair:
        """Draw a question such as `How old is the church?`."""
        clause = self.clauses.copula()
        if not _can_be_asked(clause) or clause.predicate is None or clause.predicate.english not in MEASURES:
            return None
        english, german = f"how {clause.predicate.english}", f"wie {clause.predicate.german}"
        asked = replace(clause, predicate=None)
        return f"{english} {asked.english(question=True)} ?", f"{german} {asked.german_question()} ?"


def _can_be_asked(clause: Clause) -> bool:
    return not clause.negated and clause.adverb is None and clause.subject.is_definite
