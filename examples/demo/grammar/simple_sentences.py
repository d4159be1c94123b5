"""Statements of one clause.  Each method draws one kind of sentence, or returns None if the draw does not fit."""

from dataclasses import replace
from typing import Optional, Tuple

from grammar.adverbials import SENTENCE_ADVERBIALS
from grammar.clause import Adjunct
from grammar.clause_sampler import ClauseSampler
from grammar.lexicon import ADJECTIVES_OF, NOUNS, rows
from grammar.lexicon_adverbials import NUMBERS, WEATHER
from grammar.noun_phrase import NounPhrase, determiner_of

Pair = Optional[Tuple[str, str]]
# The columns are English, German with the finite verb first, and the tense.
WEATHER_ROWS = rows(WEATHER)
COUNTED = ("adult", "kid", "animal", "building", "vessel", "furniture")
# These places can hold buildings, living beings and things, in this order.
TOWN_PLACES = ("city", "village")
OPEN_PLACES = ("village", "park", "garden", "street", "island")
INDOOR_PLACES = ("room", "hotel", "office", "house")


class SimpleSentences:
    """Statements of one clause."""

    def __init__(self, clauses: ClauseSampler) -> None:
        self.clauses = clauses
        self.dice = clauses.dice

    def statement(self) -> Pair:
        """Draw a sentence such as `The old man is reading a book`."""
        clause = self.clauses.clause()
        return f"{clause.english()} .", f"{clause.german_statement()} ."

    def fronted(self) -> Pair:
        """Draw a sentence such as `Yesterday the man read a book`, where the German verb stays second."""
        clause = self.clauses.clause()
        fitting = [item.text for item in SENTENCE_ADVERBIALS if clause.tense in item.tenses]
        if clause.time is not None:
            front, clause = clause.time, replace(clause, time=None)
        elif clause.places and clause.verb.pattern == "intransitive":
            front, clause = clause.places[-1], replace(clause, places=clause.places[:-1])
        elif fitting and not clause.negated and clause.adverb is None:
            front = self.dice.pick(fitting)
        else:
            return None
        comma = " ," if " " in front.english and not front.english.endswith(",") else ""
        return f"{front.english}{comma} {clause.english()} .", f"{clause.german_statement(front.german)} ."

    def description(self) -> Pair:
        """Draw a sentence such as `The house is very old`."""
        clause = self.clauses.copula()
        if determiner_of(clause.subject) == "a":
            return None
        countable = clause.subject.is_definite and determiner_of(clause.subject) not in ("every", "all")
        clause = replace(clause, negated=countable and self.dice.chance(0.2))
        return f"{clause.english()} .", f"{clause.german_statement()} ."

    def comparison(self) -> Pair:
        """Draw a sentence such as `My brother is older than the teacher` or `The soup is as good as the cake`."""
        noun = self.dice.pick([noun for noun in NOUNS.values() if not noun.is_mass])
        other = self.dice.pick([other for other in NOUNS.values() if other.kind == noun.kind])
        adjective = self.clauses.phrases.adjective(noun, gradable=True)
        left, right = (self.clauses.phrases.noun_phrase(n, subject=True, single=True) for n in (noun, other))
        if adjective is None or adjective not in ADJECTIVES_OF[other.english] or noun is other:
            return None
        if "every" in (left.determiner, right.determiner):
            return None
        left, right = replace(left, adjective=None), replace(right, adjective=None)
        if self.dice.chance(0.7):
            words = (f"{adjective.english[1]} than", f"{adjective.german[1]} als")
        else:
            words = (f"as {adjective.english[0]} as", f"so {adjective.german[0]} wie")
        predicate = Adjunct(f"{words[0]} {right.english()}", f"{words[1]} {right.german('nom')}")
        clause = replace(self.clauses.copula("present", left), predicate=predicate)
        return f"{clause.english()} .", f"{clause.german_statement()} ."

    def introduction(self) -> Pair:
        """Draw a sentence such as `This is my youngest sister`."""
        noun = self.dice.pick([noun for noun in NOUNS.values() if not noun.is_mass])
        phrase = self.clauses.phrases.noun_phrase(noun, single=True)
        if phrase.determiner in ("this", "every"):
            return None
        negated = phrase.is_definite and self.dice.chance(0.2)
        negation = ("not ", "nicht ") if negated else ("", "")
        return f"this is {negation[0]}{phrase.english()} .", f"das ist {negation[1]}{phrase.german('nom')} ."

    def existence(self) -> Pair:
        """Draw a sentence such as `There is a church in the village`."""
        noun = self.dice.pick([n for n in NOUNS.values() if n.kind in COUNTED and n.german_plural])
        plural = self.dice.chance(0.5)
        determiner = self.dice.pick((*NUMBERS, "many", "some")) if plural else "a"
        adjective = self.clauses.phrases.adjective(noun) if self.dice.chance(0.4) else None
        phrase = NounPhrase.build(noun, determiner, plural, adjective)
        alive = noun.kind in ("adult", "kid", "animal")
        places = TOWN_PLACES if noun.kind == "building" else OPEN_PLACES if alive else INDOOR_PLACES
        place = self.clauses.phrases.place(places)
        verb = "are" if plural else "is"
        return f"there {verb} {phrase.english()} {place.english} .", f"{place.german} gibt es {phrase.german('acc')} ."

    def weather(self) -> Pair:
        """Draw a sentence such as `It is raining in Berlin`."""
        english, german, _ = self.dice.pick(WEATHER_ROWS)
        verb, _, state = german.partition(" ")
        where = self.clauses.phrases.town("in", "in")
        end = f" {state}" if state else ""
        return f"it {english} {where.english} .", f"es {verb} {where.german}{end} ."
