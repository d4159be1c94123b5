"""Random clauses: a verb, its complements, a tense, and adverbials that fit both."""

from dataclasses import replace
from typing import Dict, Optional, Sequence

from grammar.adverbials import MIDDLE_ADVERBS, MODAL_VERBS, NUMBERED_TIMES, TIME_ADVERBIALS, Adverbial
from grammar.clause import COPULA, Adjunct, Clause
from grammar.dice import Dice
from grammar.german import prepositional_phrase
from grammar.lexicon import MANNER_OF, NOUNS, VERBS, Adjective, Verb
from grammar.noun_phrase import NounPhrase, Phrase, determiner_of
from grammar.phrase_sampler import PEOPLE, PRONOUN_PHRASES, PhraseSampler

TENSES: Dict[str, float] = {"present": 4.4, "past": 2.5, "perfect": 1.4, "future": 0.7, "modal": 1.0}
PATTERNS: Dict[str, float] = {
    "intransitive": 15, "swim": 0.7, "motion": 9, "travel": 3, "stay": 4, "transitive": 42, "dative": 9,
    "ditransitive": 10, "prepositional": 8, "position": 2.5, "placement": 3,
}  # fmt: skip
ACTIONS = {name: weight for name, weight in PATTERNS.items() if name not in ("position", "stay")}
PERSONS = (*(name for name, noun in NOUNS.items() if noun.kind in PEOPLE), "name", "pronoun")
OTHERS = tuple(name for name, noun in NOUNS.items() if noun.kind not in (*PEOPLE, "state"))
# These patterns go with `despite the rain`.
OUTDOORS = ("intransitive", "swim", "motion", "travel")
# A verb that takes many things stands here several times, because its many objects must be learned too.
DRAWN = {
    pattern: [verb for verb in verbs for _ in range(1 + len(set(verb.objects) - set(PERSONS)) // 8)]
    for pattern, verbs in VERBS.items()
}
HOMES = ("house", "city", "village", "castle", "island", "hotel")
TRIES = 300


class NoFittingWordError(Exception):
    """Many draws have found no verb or adjective that fits; probably the lexicon has none."""


class ClauseSampler:
    """Draws clauses; all choices come from one source of random numbers."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.phrases = PhraseSampler(dice)

    def clause(self, tense: str = "", subject: Optional[Phrase] = None, patterns: Optional[Dict[str, float]] = None,
               adverbials: float = 1.0) -> Clause:  # fmt: skip
        """Return a clause, with the given tense and subject if there are any; `adverbials` scales their number."""
        for _ in range(TRIES):
            verb = self.dice.pick(DRAWN[self.dice.weighted(patterns or PATTERNS)])
            if subject is not None and not accepts(verb, subject):
                continue
            who = subject or self.phrases.subject(verb.subjects)
            fitted = _fit_tense(verb, who, tense or self.dice.weighted(TENSES))
            if not tense or fitted == tense:
                return self._decorate(self._complete(Clause(who, verb, fitted)), adverbials)
        raise NoFittingWordError

    def with_verb(self, verb: Verb, adverbials: float) -> Clause:
        """Return a clause with the given verb."""
        who = self.phrases.subject(verb.subjects)
        tense = _fit_tense(verb, who, self.dice.weighted(TENSES))
        return self._decorate(self._complete(Clause(who, verb, tense)), adverbials)

    def copula(self, tense: str = "", subject: Optional[Phrase] = None, states: Sequence[str] = ()) -> Clause:
        """Return a clause such as `the man is tired`; `states`, if given, lists the English adjectives to draw from."""
        for _ in range(TRIES):
            who = subject or self.phrases.subject(PERSONS if self.dice.chance(0.45) else OTHERS)
            noun = who.noun if isinstance(who, NounPhrase) else NOUNS["woman" if who.gender == "f" else "man"]
            assert noun is not None
            if subject is None and isinstance(who, NounPhrase):
                who = replace(who, adjective=None, superlative=False)
            adjective = self.phrases.adjective(noun)
            if adjective is None or (states and adjective.english[0] not in states):
                continue
            chosen = _fit_tense(COPULA, who, tense or self.dice.weighted({"present": 3, "past": 1}))
            return Clause(who, COPULA, chosen, predicate=self._predicate(adjective))
        raise NoFittingWordError

    def reference(self, phrase: Phrase) -> Optional[Phrase]:
        """Return the pronoun for a person; there is none for things, animals and German neuters."""
        noun = phrase.noun if isinstance(phrase, NounPhrase) else None
        if phrase.is_pronoun:
            return phrase
        if noun is not None and noun.kind not in PEOPLE:
            return None
        key = (phrase.agreement, phrase.gender)
        return next((item for item in PRONOUN_PHRASES if (item.agreement, item.gender) == key), None)

    def _predicate(self, adjective: Adjective) -> Adjunct:
        english, german = adjective.english[0], adjective.german[0]
        degree = self.dice.weighted({("", ""): 6.0, ("very ", "sehr "): 2.5, ("too ", "zu "): 1.0})
        if not adjective.gradable:
            degree = ("", "")
        return Adjunct(degree[0] + english, degree[1] + german)

    def _complete(self, clause: Clause) -> Clause:
        """Return the clause with the complements of its verb."""
        verb, who = clause.verb, clause.subject
        if verb.pattern in ("motion", "travel"):
            return replace(clause, places=(self._goal(verb),))
        if verb.pattern == "stay":
            return replace(clause, places=(self._home(verb, who),))
        if verb.pattern == "swim":
            phrase = self.phrases.plain(NOUNS[self.dice.pick(verb.objects)])
            german = prepositional_phrase("in", phrase.german("dat"))
            return replace(clause, places=(Adjunct(f"in {phrase.english()}", german),))
        if verb.pattern == "position":
            noun = who.noun if isinstance(who, NounPhrase) and who.noun else NOUNS["man"]
            return replace(clause, places=(self.phrases.beside(noun, "standing" in verb.extras, "dat"),))
        if not verb.objects:
            return clause
        pronoun = verb.pattern != "ditransitive" and "noun" not in verb.extras
        if "indefinite" in verb.extras:
            return replace(clause, object=self.phrases.indefinite(verb.objects))
        thing = self.phrases.object(verb.objects, who, "one" in verb.extras, pronoun)
        clause = replace(clause, object=thing)
        if verb.pattern == "placement":
            assert isinstance(thing, NounPhrase)
            assert thing.noun is not None
            return replace(clause, places=(self.phrases.beside(thing.noun, "standing" in verb.extras, "acc"),))
        if verb.pattern == "ditransitive":
            used = thing.noun.english if isinstance(thing, NounPhrase) and thing.noun else ""
            members = [name for name in PERSONS if name != used]
            return replace(clause, indirect=self.phrases.object(members, who, single=True, pronoun=True))
        return clause

    def _goal(self, verb: Verb) -> Adjunct:
        head = verb.english.base
        if head in ("go", "drive", "come", "run") and self.dice.chance(0.15):
            return Adjunct("home", "nach Hause")
        if verb.pattern == "travel" or (head in ("drive", "come", "return") and self.dice.chance(0.35)):
            return self.phrases.town("to", "nach")
        return self.phrases.direction()

    def _home(self, verb: Verb, who: Phrase) -> Adjunct:
        kind = self.dice.weighted({"place": 4.0, "town": 4.0, "person": 2.0, "home": 2.0})
        if kind == "town":
            return self.phrases.town("in", "in")
        if kind == "person":
            return self.phrases.companion("with", "bei", "dat", who)
        if kind == "home" and verb.english.base == "stay":
            return Adjunct("at home", "zu Hause")
        return self.phrases.place(HOMES if verb.english.stative else (*HOMES, "garden", "kitchen", "room", "office"))

    def _decorate(self, clause: Clause, amount: float) -> Clause:
        """Return the clause with an English aspect and, at random, place, manner, negation and time."""
        dice, verb = self.dice, clause.verb
        clause = replace(clause, progressive=self._progressive(clause))
        if clause.tense == "modal":
            clause = replace(clause, modal=dice.pick([m for m in MODAL_VERBS if self._modal_fits(m.english, clause)]))
        manners = [extra for extra in verb.extras if extra in MANNER_OF]
        if clause.subject.agreement not in ("1pl", "3pl"):
            manners = [manner for manner in manners if manner != "together"]
        if manners and dice.chance(0.35 * amount):
            manner = dice.pick(manners)
            clause = replace(clause, manner=Adjunct(manner, MANNER_OF[manner]))
        if "place" in verb.extras and dice.chance(0.35 * amount):
            clause = replace(clause, places=(*clause.places, self.phrases.place()))
        elif "for" in verb.extras and dice.chance(0.25 * amount):
            clause = replace(clause, places=(self.phrases.companion("for", "für", "acc", clause.subject),))
        if self._may_be_negated(clause) and dice.chance(0.13):
            return replace(clause, negated=True)
        if verb.english.stative or not dice.chance(0.45 * amount):
            return clause
        return self._with_adverbial(clause)

    def _with_adverbial(self, clause: Clause) -> Clause:
        """Return the clause with a time, or with an adverb such as `often`, if one fits."""
        middle = self.dice.chance(0.25)
        source = MIDDLE_ADVERBS if middle else NUMBERED_TIMES if self.dice.chance(0.25) else TIME_ADVERBIALS
        fitting = [adverbial for adverbial in source if _fits(adverbial, clause)]
        if not fitting:
            return clause
        chosen = self.dice.pick(fitting)
        if chosen.aspect and clause.tense == "present":
            clause = replace(clause, progressive=chosen.aspect == "progressive")
        return replace(clause, adverb=chosen.text) if middle else replace(clause, time=chosen.text)

    def _progressive(self, clause: Clause) -> bool:
        english = clause.verb.english
        if clause.tense != "present" or english.stative or "simple" in clause.verb.extras:
            return False
        must = (english.ambiguous_past and clause.subject.agreement != "3sg") or clause.verb.pattern == "position"
        return must or self.dice.chance(0.7)

    def _modal_fits(self, english: str, clause: Clause) -> bool:
        if clause.subject.agreement == "2sg" and english in ("could", "had to", "wanted to"):
            return False
        return english in ("can", "must", "should", "could", "had to") or is_alive(clause.subject)

    def _may_be_negated(self, clause: Clause) -> bool:
        phrase, modal = clause.object, clause.modal
        if clause.tense == "future" or not clause.subject.is_definite or (modal and not modal.negatable):
            return False
        if isinstance(clause.subject, NounPhrase) and clause.subject.determiner in ("every", "all"):
            return False
        if isinstance(phrase, NounPhrase) and phrase.determiner in ("every", "all"):
            return False
        if clause.indirect is not None and not clause.indirect.is_definite:
            return False
        return phrase is None or phrase.is_definite or determiner_of(phrase) in ("", "a")


def is_alive(phrase: Phrase) -> bool:
    """Return whether the phrase is a person or an animal."""
    noun = phrase.noun if isinstance(phrase, NounPhrase) else None
    return noun is None or noun.kind in (*PEOPLE, "animal", "beast")


def is_person(phrase: Phrase) -> bool:
    """Return whether the phrase is a person."""
    return not isinstance(phrase, NounPhrase) or (phrase.noun is not None and phrase.noun.kind in PEOPLE)


def accepts(verb: Verb, subject: Phrase) -> bool:
    """Return whether the verb can have the subject."""
    if isinstance(subject, NounPhrase) and subject.noun is not None:
        return subject.noun.english in verb.subjects
    return "pronoun" in verb.subjects


def _fit_tense(verb: Verb, subject: Phrase, tense: str) -> str:
    """Return the tense, or another one where the verb or the subject has no clear form of it in both languages."""
    english = verb.english
    if tense == "past" and english.base == "lie":
        return "present"
    if verb.pattern == "position" or english.stative:
        tense = tense if tense in ("present", "past") else "present"
    if tense == "past" and subject.agreement == "2sg" and verb is not COPULA:
        return "present" if english.stative else "perfect"
    if tense == "past" and english.ambiguous_past and subject.agreement != "3sg":
        return "perfect"
    return tense


def _fits(adverbial: Adverbial, clause: Clause) -> bool:
    if clause.tense not in adverbial.tenses:
        return False
    extras, habit, english = clause.verb.extras, adverbial.aspect == "habit", adverbial.text.english
    if habit and ("once" in extras or clause.verb.pattern in ("position", "placement")):
        return False
    if habit and clause.tense == "present" and clause.verb.english.ambiguous_past and clause.subject.agreement != "3sg":
        return False
    if clause.tense == "present" and "simple" in extras and adverbial.aspect == "progressive":
        return False
    if english.startswith(("despite", "because")) and clause.verb.pattern not in OUTDOORS:
        return False
    indefinite = clause.object is not None and not clause.object.is_definite
    if english in ("still", "already") and (indefinite or (english == "still" and "place" not in extras)):
        return False
    return not (english == "already" and clause.verb.pattern in ("motion", "travel"))
