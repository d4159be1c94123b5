"""A clause: its parts, and the word order of both languages.

In German the finite verb stands second in a statement, first in a yes-no question and last in a subordinate clause.
The rest of the verb closes the clause.  Pronouns, indirect object, time, object, negation, manner and place stand
between them, in this order.
"""

from dataclasses import dataclass, replace
from typing import List, Optional, Tuple

from grammar.english import BE, EnglishVerb
from grammar.german import SEIN, WERDEN, GermanVerb, prepositional_phrase
from grammar.lexicon import Verb
from grammar.noun_phrase import NounPhrase, Phrase

AGREEMENTS = ("1sg", "2sg", "3sg", "1pl")
HABEN = GermanVerb.parse("haben hat hatte gehabt")
COPULA = Verb(EnglishVerb("be", "was", "been", stative=True), GermanVerb("sein", "ist", "war", "gewesen", "", "sein"),
              "copula", "", "", (), (), ())  # fmt: skip


@dataclass(frozen=True)
class Adjunct:
    """A phrase whose form is fixed in both languages."""

    english: str
    german: str


@dataclass(frozen=True)
class Modal:
    """A modal verb, whose `german` holds the forms for 1sg, 2sg, 3sg and the plural."""

    english: str
    auxiliary: str
    rest: str
    german: Tuple[str, ...]
    negatable: bool


@dataclass(frozen=True)
class Clause:
    """A clause, whose `tense` is present, past, perfect, future or modal."""

    subject: Phrase
    verb: Verb
    tense: str = "present"
    object: Optional[Phrase] = None
    indirect: Optional[Phrase] = None
    predicate: Optional[Adjunct] = None
    time: Optional[Adjunct] = None
    adverb: Optional[Adjunct] = None
    manner: Optional[Adjunct] = None
    places: Tuple[Adjunct, ...] = ()
    modal: Optional[Modal] = None
    negated: bool = False
    progressive: bool = False

    def english(self, question: bool = False) -> str:
        """Return the statement; with `question` the question, without its question word."""
        auxiliary, main = self._english_verb(question)
        negation = "not" if self.negated else ""
        adverb = self.adverb.english if self.adverb else ""
        head = (auxiliary, self.subject.english()) if question else (self.subject.english(), auxiliary)
        text = _join([*head, negation, adverb, main, *self._english_rest()])
        return text.replace("can not ", "cannot ")

    def english_infinitive(self) -> str:
        """Return the clause as an infinitive: to read the book."""
        return _join(["to", self.verb.english.infinitive, *self._english_rest()])

    def german_statement(self, front: str = "") -> str:
        """Return the clause with the verb second; *front*, if given, takes the place of the subject."""
        subject = self.subject.german("nom")
        head = [front, self._finite(), subject] if front else [subject, self._finite()]
        return _join([*head, *self._middle(), self._verb_end()])

    def german_question(self) -> str:
        """Return the clause with the verb first, as in a yes-no question or behind a question word."""
        return _join([self._finite(), self.subject.german("nom"), *self._middle(), self._verb_end()])

    def german_subordinate(self, introduction: str, with_subject: bool = True) -> str:
        """Return the clause with the verb last, behind a conjunction or a relative pronoun; that may be the subject."""
        subject = self.subject.german("nom") if with_subject else ""
        prefix_joined = self.tense in ("present", "past")
        verb = self.verb.german.prefix + self._finite() if prefix_joined else f"{self._verb_end()} {self._finite()}"
        return _join([introduction, subject, *self._middle(), verb])

    def german_infinitive(self) -> str:
        """Return the clause as an infinitive: das Buch zu lesen."""
        return _join([*self._middle(), self.verb.german.zu_infinitive])

    def without_object(self) -> "Clause":
        """Return the clause without its object."""
        return replace(self, object=None)

    @property
    def object_case(self) -> str:
        """Return the German case of the direct object."""
        return self.verb.case or ("dat" if self.verb.pattern == "dative" else "acc")

    def _finite(self) -> str:
        agreement, verb = self.subject.agreement, self.verb.german
        if self.tense == "modal":
            assert self.modal is not None
            return self.modal.german[AGREEMENTS.index(agreement.replace("3pl", "1pl"))]
        if self.tense == "future":
            return WERDEN[agreement]
        if self.tense == "perfect":
            return SEIN["present"][agreement] if verb.auxiliary == "sein" else HABEN.present(agreement)
        if verb.base == "sein":
            return SEIN[self.tense][agreement]
        return verb.present(agreement) if self.tense == "present" else verb.past(agreement)

    def _verb_end(self) -> str:
        verb = self.verb.german
        if self.tense in ("modal", "future"):
            return verb.infinitive
        return verb.participle if self.tense == "perfect" else verb.prefix

    def _middle(self) -> List[str]:
        before, direct, after = self._german_objects()
        adverb = self.adverb.german if self.adverb else ""
        indefinite = self.object is not None and not self.object.is_definite and bool(direct)
        negation = "nicht" if self.negated and not self._kein() else ""
        return [
            *before,
            self.time.german if self.time else "",
            *([adverb, direct] if indefinite else [direct, adverb]),
            negation,
            self.manner.german if self.manner else "",
            *(place.german for place in self.places),
            after,
            self.predicate.german if self.predicate else "",
        ]

    def _german_objects(self) -> Tuple[List[str], str, str]:
        """Return the objects that precede the time, the direct object and the prepositional object."""
        before = [self.indirect.german("dat")] if self.indirect else []
        if self.object is None:
            return before, "", ""
        phrase = self.object
        if self._kein() and isinstance(phrase, NounPhrase):
            phrase = phrase.with_kein()
        text = phrase.german(self.object_case)
        if self.verb.preposition:
            return before, "", prepositional_phrase(self.verb.preposition, text)
        return ([text, *before], "", "") if phrase.is_pronoun else (before, text, "")

    def _kein(self) -> bool:
        return self.negated and self.object is not None and not self.object.is_definite

    def _english_verb(self, question: bool) -> Tuple[str, str]:
        """Return the auxiliary, which is empty in a plain statement of a simple tense, and the main verb."""
        verb, agreement = self.verb.english, self.subject.agreement
        third = agreement == "3sg"
        support = question or self.negated
        if self.tense == "modal":
            assert self.modal is not None
            return _english_modal(self.modal, verb.infinitive, third, support)
        if self.tense == "future":
            return "will", verb.infinitive
        if self.tense == "perfect":
            return "has" if third else "have", verb.perfect
        if verb.base == "be":
            return BE[self.tense][agreement], ""
        if self.progressive:
            return BE[self.tense][agreement], verb.progressive
        if support:
            return _do(self.tense, third), verb.infinitive
        return "", verb.present(agreement) if self.tense == "present" else verb.past

    def _english_rest(self) -> List[str]:
        words = [self.predicate.english] if self.predicate else []
        direct = self.object.english("acc") if self.object else ""
        indirect = self.indirect.english("acc") if self.indirect else ""
        if indirect and "to" in self.verb.extras:
            words += [direct, "to", indirect]
        else:
            words += [indirect, direct]
        manner, places = self.manner.english if self.manner else "", [place.english for place in self.places]
        # English says "he sings loudly in the garden", but "he goes to the city alone".
        words += [*places, manner] if self.verb.pattern in ("motion", "travel") else [manner, *places]
        return [*words, self.time.english if self.time else ""]


def _english_modal(modal: Modal, infinitive: str, third: bool, support: bool) -> Tuple[str, str]:
    main = f"{modal.rest} {infinitive}" if modal.rest else infinitive
    if modal.auxiliary not in ("do", "did"):
        return modal.auxiliary, main
    if support:
        return _do("present" if modal.auxiliary == "do" else "past", third), main
    finite = modal.english.replace("want to", "wants to") if third else modal.english
    return "", f"{finite} {infinitive}"


def _do(tense: str, third: bool) -> str:
    if tense == "past":
        return "did"
    return "does" if third else "do"


def _join(words: List[str]) -> str:
    return " ".join(word for word in words if word)
